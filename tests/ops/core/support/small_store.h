// Small stores: one in memory, that is faulty when told to be, for tests of what lies above and
// below it, and one of small segments, for tests of its files.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_SMALL_STORE_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_SMALL_STORE_H_

#include <algorithm>
#include <atomic>
#include <mutex>

#include "ops/core/stores/dram_store.h"
#include "ops/core/stores/ssd/ssd_hash_store.h"
#include "tests/ops/core/support/testing.h"

namespace keras_sparse {

// Holds `capacity` rows and knows their order. Calls fail, as a whole, while they are told to.
class SmallStore : public DramStore {
 public:
  SmallStore(int64_t record_bytes, int64_t capacity)
      : DramStore(record_bytes), capacity_(capacity) {}

  std::atomic<bool> fails_get{false};
  std::atomic<bool> fails_erase{false};
  std::atomic<int64_t> puts_left{INT64_MAX};

  Status GetTo(const int64_t* keys, int64_t n, char* const* to, bool* found) const override {
    if (fails_get) return Status(StatusCode::kDataLoss, "record 3 is damaged");
    return DramStore::GetTo(keys, n, to, found);
  }
  Status Put(const int64_t* keys, int64_t n, const char* records) override {
    if (puts_left-- <= 0) return ResourceExhausted("the disk is full");
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = std::make_unique<bool[]>(static_cast<size_t>(n));
    Contains(keys, n, found.get());
    const int64_t num_new = std::count(found.get(), found.get() + n, false);
    if (num_rows() + num_new > capacity_) return ResourceExhausted("the tier is full");
    for (int64_t i = 0; i < n; ++i) Forget(keys[i]);
    order_.insert(order_.end(), keys, keys + n);
    return DramStore::Put(keys, n, records);
  }
  Status Erase(const int64_t* keys, int64_t n) override {
    if (fails_erase) return Status(StatusCode::kDataLoss, "the disk is gone");
    std::lock_guard<std::mutex> lock(mutex_);
    for (int64_t i = 0; i < n; ++i) Forget(keys[i]);
    return DramStore::Erase(keys, n);
  }
  Status Clear() override {
    std::lock_guard<std::mutex> lock(mutex_);
    order_.clear();
    return DramStore::Clear();
  }
  int64_t Room() const override { return capacity_ - num_rows(); }
  Status Oldest(int64_t n, std::vector<int64_t>* keys, std::vector<char>* records) const override {
    std::lock_guard<std::mutex> lock(mutex_);
    keys->assign(order_.begin(), order_.begin() + std::min<int64_t>(n, num_rows()));
    std::vector<int64_t> walked(*keys);
    keys->clear();
    return AppendRecords(walked, keys, records);
  }

 private:
  void Forget(int64_t key) {
    order_.erase(std::remove(order_.begin(), order_.end(), key), order_.end());
  }

  const int64_t capacity_;
  mutable std::mutex mutex_;
  std::vector<int64_t> order_;
};

// Of a store on SSD with segments of a few rows.
inline SsdHashOptions SsdOf(const std::string& folder, int64_t record_bytes,
                            int64_t segment_bytes = 4096,
                            FileSystem* file_system = FileSystem::Posix()) {
  SsdHashOptions options;
  options.file_system = file_system;
  options.folder = folder;
  options.record_bytes = record_bytes;
  options.segment_bytes = segment_bytes;
  return options;
}

inline std::unique_ptr<RowStore> OpenSsd(const SsdHashOptions& options) {
  std::unique_ptr<RowStore> store;
  EXPECT_TRUE(IsOk(SsdHashStore::Open(options, &store)));
  return store;
}

constexpr int64_t kBytes = 100;
constexpr int64_t kStride = 12 + kBytes;
constexpr int64_t kEntries = 100;  // of a segment
constexpr int64_t kSegmentBytes = 64 + kEntries * kStride;

inline std::unique_ptr<RowStore> OpenLinked(const std::string& folder,
                                            FileSystem* file_system = FileSystem::Posix(),
                                            BackgroundPool* compaction_pool = nullptr,
                                            int64_t capacity = INT64_MAX) {
  SsdHashOptions options = SsdOf(folder, kBytes, kSegmentBytes, file_system);
  options.compaction_pool = compaction_pool;
  options.capacity = capacity;
  return OpenSsd(options);
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_SMALL_STORE_H_
