// RecordBatch: records read from lower tiers, in one allocation.
#ifndef KERAS_SPARSE_OPS_CORE_STORES_RECORD_BATCH_H_
#define KERAS_SPARSE_OPS_CORE_STORES_RECORD_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/stores/row_store.h"

namespace keras_sparse {

// Some records and their keys. Immutable.
class RecordBatch {
 public:
  // Reads the records of all keys that a store has. If several stores have a key, the first one
  // counts.
  //   keys    distinct
  //   stores  at least one, with records of the same size
  static Status Read(const RowStores& stores, const std::vector<int64_t>& keys,
                     std::shared_ptr<const RecordBatch>* batch);

  size_t size() const { return keys_.size(); }
  const std::vector<int64_t>& keys() const { return keys_; }
  // Returns the record of keys()[i].
  const float* record(size_t i) const { return reinterpret_cast<const float*>(At(places_[i])); }
  int64_t bytes() const;

 private:
  explicit RecordBatch(int64_t record_bytes) : record_bytes_(record_bytes) {}

  Status Allocate(size_t num_places);
  char* At(size_t place) const {
    return records_.get() + static_cast<int64_t>(place) * record_bytes_;
  }
  // Drops the space of keys that were not found, if they are more than half of all.
  Status Fit();

  int64_t record_bytes_;
  size_t num_places_ = 0;
  std::vector<int64_t> keys_;
  std::vector<size_t> places_;  // of the records, by key
  std::unique_ptr<char[]> records_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_RECORD_BATCH_H_
