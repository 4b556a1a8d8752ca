// DramStore: a lower tier in memory, below a first tier of GPU memory, and the reference for other
// stores.
#ifndef KERAS_SPARSE_OPS_CORE_STORES_DRAM_STORE_H_
#define KERAS_SPARSE_OPS_CORE_STORES_DRAM_STORE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/base/arena.h"
#include "ops/core/base/mutex.h"
#include "ops/core/index/hash_index.h"
#include "ops/core/record/record_slabs.h"
#include "ops/core/stores/last_write_wins.h"
#include "ops/core/stores/row_store.h"

namespace keras_sparse {

class DramStore : public RowStore {
 public:
  //   capacity     bytes that rows may use; beyond it, Put returns ResourceExhausted
  //   keeps_order  needed for Oldest
  explicit DramStore(int64_t record_bytes, int64_t capacity = INT64_MAX, bool keeps_order = false);

  const char* tier() const override { return "dram"; }
  int64_t record_bytes() const override { return record_bytes_; }
  int64_t num_rows() const override;
  int64_t bytes() const override;
  int64_t memory_bytes() const override { return 0; }
  void Contains(const int64_t* keys, int64_t n, bool* found) const override;
  Status GetTo(const int64_t* keys, int64_t n, char* const* to, bool* found) const override;
  Status Put(const int64_t* keys, int64_t n, const char* records) override;
  Status Erase(const int64_t* keys, int64_t n) override;
  Status Clear() override;
  Status Walk(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
              std::vector<char>* records, int64_t* next) const override;
  int64_t Room() const override;
  Status Oldest(int64_t n, std::vector<int64_t>* keys, std::vector<char>* records) const override;

 private:
  void Reset() REQUIRES(mutex_);
  // Returns ResourceExhausted if the new ones among the keys do not fit.
  Status CheckRoom(const int64_t* keys, int64_t n) const REQUIRES_SHARED(mutex_);
  // Creates a row for a new key.
  Status Create(int64_t key, uint32_t* row) REQUIRES(mutex_);
  const char* RecordOf(uint32_t row) const REQUIRES_SHARED(mutex_) {
    return reinterpret_cast<const char*>(rows_->Record(row));
  }

  const int64_t record_bytes_;
  const int64_t capacity_;
  const int64_t row_bytes_;  // bytes per row: its record and overhead
  const bool keeps_order_;
  mutable SharedMutex mutex_;
  std::unique_ptr<Arena> arena_ GUARDED_BY(mutex_);
  std::unique_ptr<HashIndex> index_ GUARDED_BY(mutex_);
  std::unique_ptr<RecordSlabs> rows_ GUARDED_BY(mutex_);
  // Only if the order is kept: the order, and the key of each row.
  LastWriteWins order_ GUARDED_BY(mutex_);
  std::vector<int64_t> keys_ GUARDED_BY(mutex_);
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_DRAM_STORE_H_
