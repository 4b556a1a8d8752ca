// LevelDbEnv: the environment through which LevelDB reads its files.
#ifndef KERAS_SPARSE_OPS_CORE_STORES_LEVELDB_LEVELDB_ENV_H_
#define KERAS_SPARSE_OPS_CORE_STORES_LEVELDB_LEVELDB_ENV_H_

#include <leveldb/env.h>

namespace keras_sparse {

// LevelDB's own environment, with two changes. It maps no file into memory, because reading a
// mapped file that was truncated, or whose disk fails, ends the process. It starts a background
// thread in each process, whereas LevelDB's would be the thread of the process that this one was
// forked from. Lives until the process ends.
//
// Thread safety: all methods may overlap.
leveldb::Env* LevelDbEnv();

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_LEVELDB_LEVELDB_ENV_H_
