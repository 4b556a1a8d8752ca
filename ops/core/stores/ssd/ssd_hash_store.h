// SsdHashStore: a lower tier on SSD, with an index in memory and records in append-only files.
#ifndef KERAS_SPARSE_OPS_CORE_STORES_SSD_SSD_HASH_STORE_H_
#define KERAS_SPARSE_OPS_CORE_STORES_SSD_SSD_HASH_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/core/base/background_pool.h"
#include "ops/core/base/mutex.h"
#include "ops/core/files/file_system.h"
#include "ops/core/index/hash_index.h"
#include "ops/core/stores/row_store.h"
#include "ops/core/stores/ssd/ssd_segment.h"

namespace keras_sparse {

struct SsdHashOptions {
  FileSystem* file_system = nullptr;
  std::string folder;  // of this store alone; created by Open, removed with the store
  int64_t record_bytes = 0;
  // Maximum bytes of the files, except for the segment that a compaction writes before it removes
  // the old one. Beyond it, Put returns ResourceExhausted.
  int64_t capacity = INT64_MAX;
  int64_t segment_bytes = int64_t{64} << 20;
  BackgroundPool* compaction_pool = nullptr;  // null: Put compacts before it returns
  bool direct_io = false;                     // bypasses the system's page cache
};

// Put appends to the newest segment through a buffer that is written when it is full (group
// commit). Written entries never change, so they are read without a lock; a full segment is sealed
// and no longer appended to. An entry is dead once its key has a newer one or is erased. Compaction
// copies the live entries out of sealed segments that are half dead, and removes these segments. It
// runs at the end of a Put or in the background. Compact does so for all segments with a dead
// entry. docs/formats/ssdhash.md describes the bytes.
//
// An entry has a checksum and its key: a read returns what was written, or DataLoss.
class SsdHashStore : public RowStore {
 public:
  static Status Open(const SsdHashOptions& options, std::unique_ptr<RowStore>* store);
  ~SsdHashStore() override;

  const char* tier() const override { return "ssdhash"; }
  int64_t record_bytes() const override { return layout_.record_bytes; }
  int64_t num_rows() const override;
  // Bytes of the files.
  int64_t bytes() const override;
  int64_t memory_bytes() const override;
  int64_t compacted_bytes() const override;
  void Contains(const int64_t* keys, int64_t n, bool* found) const override;
  Status GetTo(const int64_t* keys, int64_t n, char* const* to, bool* found) const override;
  Status Put(const int64_t* keys, int64_t n, const char* records) override;
  Status Erase(const int64_t* keys, int64_t n) override;
  Status Clear() override;
  // Returns DataLoss if a segment with dead entries has others that cannot be read: that segment
  // stays.
  Status Compact() override;
  Status Walk(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
              std::vector<char>* records, int64_t* next) const override;
  // Seals the newest segment, however full it is.
  Status LinkFiles(const std::string& path_prefix, std::vector<LinkedFile>* files) override;
  Status WalkUnlinked(int64_t /*cursor*/, int64_t /*max_rows*/, std::vector<int64_t>* /*keys*/,
                      std::vector<char>* /*records*/, int64_t* next) const override {
    *next = -1;
    return Status::Ok();
  }
  bool links_all() const override { return true; }

 private:
  // The position of an entry: the segment's number times entries per segment, plus its number in
  // the segment.
  using Position = uint32_t;
  using Segments = std::vector<std::shared_ptr<SsdSegment>>;

  SsdHashStore(const SsdHashOptions& options, const EntryLayout& layout);

  Status Append(int64_t key, const char* record, Position* position) REQUIRES(mutex_);
  Status BeginSegment() REQUIRES(mutex_);
  void Release(Position position) REQUIRES(mutex_);
  size_t SegmentOf(Position position) const { return position / entries_; }
  int64_t EntryOf(Position position) const { return position % entries_; }

  // Compacts segments that are at least half dead.
  Status CompactDead();
  // Compacts as much as needed before `num_records` records are added.
  Status MakeRoom(int64_t num_records);
  // Copies the live entries of sealed segments that are at least `least_dead_percent` dead, the
  // most dead first, until the files have at most `enough_bytes`.
  Status CompactUntil(int64_t least_dead_percent, int64_t enough_bytes) REQUIRES(compaction_mutex_)
      EXCLUDES(mutex_);
  Status CompactSegment(size_t number, const std::shared_ptr<SsdSegment>& segment)
      REQUIRES(compaction_mutex_) EXCLUDES(mutex_);
  // Removes files that belong to no segment, including files that are still being read.
  Status RemoveLeftFiles() const EXCLUDES(links_mutex_, mutex_);

  const SsdHashOptions options_;
  const EntryLayout layout_;
  const uint32_t entries_;  // in a full segment

  Mutex compaction_mutex_ ACQUIRED_BEFORE(links_mutex_);
  // Held while segments that may be removed meanwhile are linked by their paths.
  mutable Mutex links_mutex_ ACQUIRED_BEFORE(mutex_);
  mutable SharedMutex mutex_;
  HashIndex index_ GUARDED_BY(mutex_){0};  // key -> Position
  Segments segments_ GUARDED_BY(mutex_);   // by number; null for a free number
  size_t newest_ GUARDED_BY(mutex_) = 0;   // the segment being written, if any
  uint64_t num_begun_ GUARDED_BY(mutex_) = 0;
  int64_t num_compacted_ GUARDED_BY(mutex_) = 0;

  // Last, so that it stops before the members it uses. Null if Put compacts.
  std::unique_ptr<BackgroundTask> compaction_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_SSD_SSD_HASH_STORE_H_
