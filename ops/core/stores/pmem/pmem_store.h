// A lower tier in persistent memory: an index in memory, records in memory-mapped files.
#ifndef KERAS_SPARSE_OPS_CORE_STORES_PMEM_PMEM_STORE_H_
#define KERAS_SPARSE_OPS_CORE_STORES_PMEM_PMEM_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/core/base/mutex.h"
#include "ops/core/files/entry_file.h"
#include "ops/core/files/file_system.h"
#include "ops/core/index/hash_index.h"
#include "ops/core/stores/last_write_wins.h"
#include "ops/core/stores/pmem/pmem_extent.h"
#include "ops/core/stores/row_store.h"

namespace keras_sparse {

struct PmemOptions {
  FileSystem* file_system = nullptr;
  std::string folder;  // of this store alone; made by Open, removed with the store
  int64_t record_bytes = 0;
  // The most that the files may take. ResourceExhausted from Put beyond it.
  int64_t capacity = INT64_MAX;
  int64_t extent_bytes = int64_t{64} << 20;
  bool keeps_order = false;  // for Oldest
};

// Files are mapped and read in place. An entry is never written over while a key has it: Put writes
// the records to free entries, and then the index turns to those, so that a failure leaves the old
// ones. Entries that were left are free for later records. Files come one at a time as rows do, and
// stay until Clear. docs/formats/pmem.md has the bytes.
//
// An entry has a checksum, and its key: what is read is what was written, or DataLoss.
class PmemStore : public RowStore {
 public:
  static Status Open(const PmemOptions& options, std::unique_ptr<RowStore>* store);
  ~PmemStore() override;

  const char* tier() const override { return "pmem"; }
  int64_t record_bytes() const override { return layout_.record_bytes; }
  int64_t num_rows() const override;
  // Of the files, free entries too.
  int64_t bytes() const override;
  int64_t memory_bytes() const override;
  void Contains(const int64_t* keys, int64_t n, bool* found) const override;
  Status GetTo(const int64_t* keys, int64_t n, char* const* to, bool* found) const override;
  Status Put(const int64_t* keys, int64_t n, const char* records) override;
  Status Erase(const int64_t* keys, int64_t n) override;
  Status Clear() override;
  // Writes zeros over all free entries.
  Status Compact() override;
  Status Walk(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
              std::vector<char>* records, int64_t* next) const override;
  int64_t Room() const override;
  Status Oldest(int64_t n, std::vector<int64_t>* keys, std::vector<char>* records) const override;

 private:
  // The place of an entry: number of the extent times entries an extent, plus its number there.
  using Position = uint32_t;

  explicit PmemStore(const PmemOptions& options);

  // Makes sure that there are free entries for a Put.
  Status Reserve(const int64_t* keys, int64_t n) REQUIRES(write_mutex_);
  Status AddExtent() REQUIRES(write_mutex_);
  int64_t num_free() const REQUIRES(write_mutex_) {
    return num_entries_ - end_ + static_cast<int64_t>(free_.size());
  }
  // The entry that is taken after `i` others.
  Position FreeEntry(int64_t i) const REQUIRES(write_mutex_);
  // Writes records to that many free entries, which stay free.
  Status WriteEntries(const int64_t* keys, int64_t n, const char* records) REQUIRES(write_mutex_);

  // Gives free entries that hold the records of these keys to the index.
  void Commit(const int64_t* keys, int64_t n) REQUIRES(write_mutex_, mutex_);
  void Release(Position position) REQUIRES(write_mutex_, mutex_);
  // A part of the entries is kept for records that replace others.
  int64_t max_rows() const { return max_entries_ - spare_entries_; }
  size_t ExtentOf(Position position) const { return position / entries_; }
  int64_t EntryOf(Position position) const { return position % entries_; }

  const PmemOptions options_;
  const EntryLayout layout_;
  const uint32_t entries_;       // of an extent; the last one may have fewer
  const int64_t max_entries_;    // within the capacity
  const int64_t spare_entries_;  // of these

  Mutex write_mutex_ ACQUIRED_BEFORE(mutex_);
  mutable SharedMutex mutex_;
  uint64_t num_created_ GUARDED_BY(write_mutex_) = 0;  // extents, and tries to make one
  // What follows is written under both locks, so that either is enough to read it.
  HashIndex index_ GUARDED_BY(write_mutex_, mutex_){0};  // key -> Position
  std::vector<std::unique_ptr<PmemExtent>> extents_ GUARDED_BY(write_mutex_, mutex_);
  int64_t num_entries_ GUARDED_BY(write_mutex_, mutex_) = 0;  // of the extents there are
  // Entries from here on were never taken, and these below it are free again.
  int64_t end_ GUARDED_BY(write_mutex_, mutex_) = 0;
  std::vector<Position> free_ GUARDED_BY(write_mutex_, mutex_);
  std::unique_ptr<LastWriteWins> order_ GUARDED_BY(write_mutex_, mutex_);  // null unless it is kept
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_PMEM_PMEM_STORE_H_
