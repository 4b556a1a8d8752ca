// MissingKeys: the keys of an op without a row in a GPU's memory, deduplicated and sorted there.
#ifndef KERAS_SPARSE_OPS_CORE_IDS_MISSING_KEYS_H_
#define KERAS_SPARSE_OPS_CORE_IDS_MISSING_KEYS_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/device/device.h"
#include "ops/core/device/device_array.h"

namespace keras_sparse::cuda_impl {

// Ids after a search for their rows.
struct FoundIds {
  const int64_t* ids;    // (n) in the GPU's memory
  const uint32_t* rows;  // (n) the row of each id, or kNoHbmRow; in the GPU's memory
  int64_t n;
  int64_t num_missing;      // number of ids without a row
  bool same_table = false;  // whether these are more ids of the previous list's table
};

class MissingKeys {
 public:
  // Finds the missing keys of each table. Waits for the device once, to read their number.
  static Status Find(const std::vector<FoundIds>& lists, Device* device,
                     std::vector<MissingKeys>* missing);

  int64_t size() const { return size_; }
  // (size) in the GPU's memory: distinct and sorted.
  const int64_t* keys() const { return keys_.data(); }

  // Each returns (size) values to host memory. Waits for the device.
  Status ReadKeys(std::vector<int64_t>* keys) const;
  // Returns how often each key occurs.
  Status ReadCounts(std::vector<int64_t>* counts) const;
  // Returns the positions of the keys among these, ordered by first occurrence.
  Status ReadArrivals(std::vector<uint32_t>* places) const;

 private:
  //   num_runs  (1) in the GPU's memory: receives the size
  Status Sort(const std::vector<FoundIds>& lists, uint32_t* num_runs);

  Device* device_ = nullptr;
  int64_t num_ids_ = 0;
  int64_t size_ = 0;
  DeviceArray<int64_t> keys_;
  // The position of each missing id in order of arrival, sorted by id, and the start of each run of
  // equal ids.
  DeviceArray<uint32_t> places_;
  DeviceArray<uint32_t> begins_;
};

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_IDS_MISSING_KEYS_H_
