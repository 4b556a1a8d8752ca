// How LevelDB reads its files.
#ifndef KERAS_SPARSE_OPS_CORE_STORES_LEVELDB_LEVELDB_ENV_H_
#define KERAS_SPARSE_OPS_CORE_STORES_LEVELDB_LEVELDB_ENV_H_

#include <leveldb/env.h>

namespace keras_sparse {

// LevelDB's own environment, but that it maps no file into memory: to read a mapped file that was
// cut off, or is on a disk that fails, ends the process. And its background thread is this
// process's, where LevelDB's is that of the process that this one was forked from. Lives until the
// process ends.
//
// Thread safety: all methods may overlap.
leveldb::Env* LevelDbEnv();

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_LEVELDB_LEVELDB_ENV_H_
