// InstrumentedStore: a RowStore that counts its calls.
#ifndef KERAS_SPARSE_OPS_CORE_STORES_INSTRUMENTED_STORE_H_
#define KERAS_SPARSE_OPS_CORE_STORES_INSTRUMENTED_STORE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/stores/row_store.h"

namespace keras_sparse {

// Counts since the store was opened, or since CountAnew.
struct StoreCounts {
  int64_t hits = 0;    // keys that Get found
  int64_t misses = 0;  // keys that Get did not find
  int64_t added_rows = 0;
  int64_t moved_rows = 0;   // rows erased by EraseMoved
  int64_t erased_rows = 0;  // rows erased by Erase, except while erasures do not count
  int64_t read_bytes = 0;   // bytes of records
  int64_t write_bytes = 0;  // bytes of records
  int64_t compacted_bytes = 0;
  int64_t busy_ns = 0;  // nanoseconds of Get, Put and Erase, including background writes
};

// REQUIRES: changes do not overlap, so that the rows that each adds or erases can be counted
class InstrumentedStore : public RowStore {
 public:
  explicit InstrumentedStore(std::unique_ptr<RowStore> store) : store_(std::move(store)) {}

  StoreCounts counts() const;
  void CountAnew();
  // Sets whether erased rows count from now on. Evicted rows do not count, because they are not
  // promoted.
  void CountErasures(bool counts) { counts_erasures_ = counts; }

  const char* tier() const override { return store_->tier(); }
  int64_t record_bytes() const override { return store_->record_bytes(); }
  int64_t num_rows() const override { return store_->num_rows(); }
  int64_t bytes() const override { return store_->bytes(); }
  int64_t memory_bytes() const override { return store_->memory_bytes(); }
  int64_t compacted_bytes() const override { return store_->compacted_bytes(); }
  void Contains(const int64_t* keys, int64_t n, bool* found) const override {
    store_->Contains(keys, n, found);
  }
  Status GetTo(const int64_t* keys, int64_t n, char* const* to, bool* found) const override;
  Status Put(const int64_t* keys, int64_t n, const char* records) override;
  Status PutOwned(const int64_t* keys, int64_t n, std::unique_ptr<char[]> records) override;
  Status Erase(const int64_t* keys, int64_t n) override;
  Status EraseMoved(const int64_t* keys, int64_t n) override;
  Status Clear() override { return store_->Clear(); }
  Status Flush() override { return store_->Flush(); }
  Status Compact() override { return store_->Compact(); }
  Status Walk(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
              std::vector<char>* records, int64_t* next) const override {
    return store_->Walk(cursor, max_rows, keys, records, next);
  }
  Status LinkFiles(const std::string& path_prefix, std::vector<LinkedFile>* files) override {
    return store_->LinkFiles(path_prefix, files);
  }
  Status WalkUnlinked(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
                      std::vector<char>* records, int64_t* next) const override {
    return store_->WalkUnlinked(cursor, max_rows, keys, records, next);
  }
  bool links_all() const override { return store_->links_all(); }
  int64_t Room() const override { return store_->Room(); }
  Status Oldest(int64_t n, std::vector<int64_t>* keys, std::vector<char>* records) const override {
    return store_->Oldest(n, keys, records);
  }

 private:
  template <typename PutRows>
  Status CountPut(int64_t n, const PutRows& put);

  const std::unique_ptr<RowStore> store_;
  mutable std::atomic<int64_t> hits_{0};
  mutable std::atomic<int64_t> misses_{0};
  std::atomic<int64_t> added_rows_{0};
  std::atomic<int64_t> moved_rows_{0};
  std::atomic<int64_t> erased_rows_{0};
  std::atomic<bool> counts_erasures_{true};
  std::atomic<int64_t> put_rows_{0};
  mutable std::atomic<int64_t> busy_ns_{0};
  std::atomic<int64_t> compacted_before_{0};  // bytes, before counting began
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_INSTRUMENTED_STORE_H_
