// LevelDbStore: a lower tier on disk in LevelDB.
#ifndef KERAS_SPARSE_OPS_CORE_STORES_LEVELDB_LEVELDB_STORE_H_
#define KERAS_SPARSE_OPS_CORE_STORES_LEVELDB_LEVELDB_STORE_H_

#include <leveldb/db.h>
#include <leveldb/filter_policy.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/core/base/mutex.h"
#include "ops/core/index/hash_index.h"
#include "ops/core/stores/row_store.h"

namespace keras_sparse {

// An entry of the database is a key of the table, 8 bytes, and its record. LevelDB verifies the
// checksums of everything it reads. The store also keeps all keys in memory: LevelDB would have to
// read to tell whether a write adds or replaces a row, and to look up most missing keys.
class LevelDbStore : public RowStore {
 public:
  static Status Open(const StoreOptions& options, std::unique_ptr<RowStore>* store);
  ~LevelDbStore() override;

  const char* tier() const override { return "leveldb"; }
  int64_t record_bytes() const override { return options_.record_bytes; }
  int64_t num_rows() const override;
  // Bytes of the files.
  int64_t bytes() const override;
  int64_t memory_bytes() const override;
  void Contains(const int64_t* keys, int64_t n, bool* found) const override;
  Status GetTo(const int64_t* keys, int64_t n, char* const* to, bool* found) const override;
  Status Put(const int64_t* keys, int64_t n, const char* records) override;
  Status Erase(const int64_t* keys, int64_t n) override;
  Status Clear() override;
  // Copies all rows into a new database, because LevelDB's own compaction leaves records that are
  // in no level above another, and keys in its manifest. The copy needs its space beside the old
  // database, and blocks other calls. Returns ResourceExhausted before it starts if the disk has
  // too little space.
  Status Compact() override;
  Status Walk(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
              std::vector<char>* records, int64_t* next) const override;

 private:
  explicit LevelDbStore(const StoreOptions& options);

  Status OpenDatabase(const std::string& folder, std::unique_ptr<leveldb::DB>* database) const
      REQUIRES_SHARED(mutex_);
  void EraseLocked(const int64_t* keys, int64_t n) REQUIRES(mutex_);
  Status MakeRoom(int64_t num_records) REQUIRES(mutex_);
  Status Write(leveldb::WriteBatch* batch) REQUIRES(mutex_);
  // Returns ResourceExhausted unless the disk has room for a new database.
  Status CheckRoomForCopy() const REQUIRES_SHARED(mutex_);
  // Copies all rows to a new database and switches to it; if the copy fails, keeps the old one.
  Status CopyDatabase() REQUIRES(mutex_);
  // Puts all rows into another database.
  Status CopyInto(leveldb::DB* copy) const REQUIRES_SHARED(mutex_);
  // Removes the databases replaced by copies. Returns FailedPrecondition if one cannot be removed.
  Status RemoveOldDatabases() REQUIRES(mutex_);

  int64_t BytesOfFiles() const REQUIRES_SHARED(mutex_);
  Status Read(const leveldb::ReadOptions& options, int64_t key, char* record) const
      REQUIRES_SHARED(mutex_);
  Status ToStatus(const leveldb::Status& status) const REQUIRES_SHARED(mutex_);

  const StoreOptions options_;
  std::unique_ptr<const leveldb::FilterPolicy> filter_;

  mutable SharedMutex mutex_;
  std::string folder_ GUARDED_BY(mutex_);  // of the database
  std::unique_ptr<leveldb::DB> database_ GUARDED_BY(mutex_);
  HashIndex keys_ GUARDED_BY(mutex_){0};
  int64_t num_copies_ GUARDED_BY(mutex_) = 0;
  std::vector<std::string> old_folders_ GUARDED_BY(mutex_);  // of replaced databases
  // Whether the database may have records that were replaced, erased, or never became rows.
  bool may_have_dead_ GUARDED_BY(mutex_) = false;
  // Upper bound of the files' size: the last measured size and all bytes written since.
  int64_t most_bytes_ GUARDED_BY(mutex_) = 0;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_LEVELDB_LEVELDB_STORE_H_
