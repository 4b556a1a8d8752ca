// A lower tier in memory: below a first tier of GPU memory, and the reference for other stores.
#ifndef KERAS_SPARSE_OPS_CORE_STORES_DRAM_STORE_H_
#define KERAS_SPARSE_OPS_CORE_STORES_DRAM_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/base/arena.h"
#include "ops/core/base/mutex.h"
#include "ops/core/index/hash_index.h"
#include "ops/core/record/record_slabs.h"
#include "ops/core/stores/row_store.h"

namespace keras_sparse {

class DramStore : public RowStore {
 public:
  explicit DramStore(int64_t record_bytes);

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

 private:
  void Reset() REQUIRES(mutex_);

  int64_t record_bytes_;
  mutable SharedMutex mutex_;
  std::unique_ptr<Arena> arena_ GUARDED_BY(mutex_);
  std::unique_ptr<HashIndex> index_ GUARDED_BY(mutex_);
  std::unique_ptr<RecordSlabs> rows_ GUARDED_BY(mutex_);
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_DRAM_STORE_H_
