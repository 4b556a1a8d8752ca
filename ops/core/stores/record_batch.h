// Records that were read from lower tiers, in one piece of memory.
#ifndef KERAS_SPARSE_OPS_CORE_STORES_RECORD_BATCH_H_
#define KERAS_SPARSE_OPS_CORE_STORES_RECORD_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/stores/row_store.h"

namespace keras_sparse {

// Some records and their keys. It does not change.
class RecordBatch {
 public:
  // Reads the records of those keys that one of the stores has; the first one that has a key gives
  // its record.
  //   keys    all different
  //   stores  with records of the same size; at least one
  static Status Read(const RowStores& stores, const std::vector<int64_t>& keys,
                     std::shared_ptr<const RecordBatch>* batch);

  size_t size() const { return keys_.size(); }
  const std::vector<int64_t>& keys() const { return keys_; }
  // Of keys()[i].
  const float* record(size_t i) const { return reinterpret_cast<const float*>(At(places_[i])); }
  int64_t bytes() const;

 private:
  explicit RecordBatch(int64_t record_bytes) : record_bytes_(record_bytes) {}

  Status Allocate(size_t num_places);
  char* At(size_t place) const {
    return records_.get() + static_cast<int64_t>(place) * record_bytes_;
  }
  // Drops the places of keys that were not found, where they are most of them.
  Status Fit();

  int64_t record_bytes_;
  size_t num_places_ = 0;
  std::vector<int64_t> keys_;
  std::vector<size_t> places_;  // of the records, by key
  std::unique_ptr<char[]> records_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_RECORD_BATCH_H_
