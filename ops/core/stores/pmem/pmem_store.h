// PmemStore: a lower tier in persistent memory, with an index in memory and records in mapped
// files.
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
  std::string folder;  // of this store alone; created by Open, removed with the store
  int64_t record_bytes = 0;
  // Maximum bytes of the files. Beyond it, Put returns ResourceExhausted.
  int64_t capacity = INT64_MAX;
  int64_t extent_bytes = int64_t{64} << 20;
  bool keeps_order = false;  // needed for Oldest
};

// Files are mapped and read in place. An entry is never overwritten while a key uses it: Put writes
// records to free entries, then points the index to them, so that a failure leaves the old records.
// Entries no longer used are free for later records. Files are added one at a time as rows are
// added, and stay until Clear. docs/formats/pmem.md describes the bytes.
//
// An entry has a checksum and its key: a read returns what was written, or DataLoss.
class PmemStore : public RowStore {
 public:
  static Status Open(const PmemOptions& options, std::unique_ptr<RowStore>* store);
  ~PmemStore() override;

  const char* tier() const override { return "pmem"; }
  int64_t record_bytes() const override { return layout_.record_bytes; }
  int64_t num_rows() const override;
  // Bytes of the files, including free entries.
  int64_t bytes() const override;
  int64_t memory_bytes() const override;
  void Contains(const int64_t* keys, int64_t n, bool* found) const override;
  Status GetTo(const int64_t* keys, int64_t n, char* const* to, bool* found) const override;
  Status Put(const int64_t* keys, int64_t n, const char* records) override;
  Status Erase(const int64_t* keys, int64_t n) override;
  Status Clear() override;
  // Overwrites all free entries with zeros.
  Status Compact() override;
  Status Walk(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
              std::vector<char>* records, int64_t* next) const override;
  int64_t Room() const override;
  Status Oldest(int64_t n, std::vector<int64_t>* keys, std::vector<char>* records) const override;

 private:
  // The position of an entry: the extent's number times entries per extent, plus its number in the
  // extent.
  using Position = uint32_t;

  explicit PmemStore(const PmemOptions& options);

  // Ensures that a Put has free entries.
  Status Reserve(const int64_t* keys, int64_t n) REQUIRES(write_mutex_);
  Status AddExtent() REQUIRES(write_mutex_);
  int64_t num_free() const REQUIRES(write_mutex_) {
    return num_entries_ - end_ + static_cast<int64_t>(free_.size());
  }
  // Returns the entry to use after `i` others.
  Position FreeEntry(int64_t i) const REQUIRES(write_mutex_);
  // Writes records to n free entries, which stay free until Commit.
  Status WriteEntries(const int64_t* keys, int64_t n, const char* records) REQUIRES(write_mutex_);

  // Points the index to the free entries that hold the records of these keys.
  void Commit(const int64_t* keys, int64_t n) REQUIRES(write_mutex_, mutex_);
  void Release(Position position) REQUIRES(write_mutex_, mutex_);
  // Some entries are reserved for records that replace others.
  int64_t max_rows() const { return max_entries_ - spare_entries_; }
  size_t ExtentOf(Position position) const { return position / entries_; }
  int64_t EntryOf(Position position) const { return position % entries_; }

  const PmemOptions options_;
  const EntryLayout layout_;
  const uint32_t entries_;       // per extent; the last one may have fewer
  const int64_t max_entries_;    // within the capacity
  const int64_t spare_entries_;  // reserved entries among these

  Mutex write_mutex_ ACQUIRED_BEFORE(mutex_);
  mutable SharedMutex mutex_;
  uint64_t num_created_ GUARDED_BY(write_mutex_) = 0;  // extents created, including failed attempts
  // The members below are written under both locks, so either lock is enough to read them.
  HashIndex index_ GUARDED_BY(write_mutex_, mutex_){0};  // key -> Position
  std::vector<std::unique_ptr<PmemExtent>> extents_ GUARDED_BY(write_mutex_, mutex_);
  int64_t num_entries_ GUARDED_BY(write_mutex_, mutex_) = 0;  // in all extents
  // Entries from here on were never used; entries below that are free again are in free_.
  int64_t end_ GUARDED_BY(write_mutex_, mutex_) = 0;
  std::vector<Position> free_ GUARDED_BY(write_mutex_, mutex_);
  std::unique_ptr<LastWriteWins> order_ GUARDED_BY(write_mutex_, mutex_);  // null unless kept
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_PMEM_PMEM_STORE_H_
