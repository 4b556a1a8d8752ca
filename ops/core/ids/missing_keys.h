// The keys of an op that have no row in a GPU's memory: found, made distinct and sorted there.
#ifndef KERAS_SPARSE_OPS_CORE_IDS_MISSING_KEYS_H_
#define KERAS_SPARSE_OPS_CORE_IDS_MISSING_KEYS_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/device/device.h"
#include "ops/core/device/device_array.h"

namespace keras_sparse::cuda_impl {

// Ids that were looked for.
struct FoundIds {
  const int64_t* ids;    // (n) in the GPU's memory
  const uint32_t* rows;  // (n) there: of each, or kNoHbmRow
  int64_t n;
  int64_t num_missing;  // how many have no row
};

class MissingKeys {
 public:
  // Finds those of each list. Waits for the device once, to hear how many there are.
  static Status Find(const std::vector<FoundIds>& lists, Device* device,
                     std::vector<MissingKeys>* missing);

  int64_t size() const { return size_; }
  // (size) in the GPU's memory: distinct, in their order.
  const int64_t* keys() const { return keys_.data(); }

  // What the CPU may have to know of them, (size) each. Waits for the device.
  Status ReadKeys(std::vector<int64_t>* keys) const;
  // How often each key came.
  Status ReadCounts(std::vector<int64_t>* counts) const;
  // The places of the keys among these, in the order in which they first came.
  Status ReadArrivals(std::vector<uint32_t>* places) const;

 private:
  //   num_runs  (1) in the GPU's memory: gets the size
  Status Sort(const FoundIds& list, uint32_t* num_runs);

  Device* device_ = nullptr;
  int64_t num_ids_ = 0;
  int64_t size_ = 0;
  DeviceArray<int64_t> keys_;
  // Of the missing ids as they came, the place of each in their order, and where the equal ones
  // begin in that.
  DeviceArray<uint32_t> places_;
  DeviceArray<uint32_t> begins_;
};

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_IDS_MISSING_KEYS_H_
