// DeviceMerger: merges gradients on a GPU, one gradient sum per distinct id, in its first entry.
#ifndef KERAS_SPARSE_OPS_CORE_GRADIENTS_DEVICE_MERGER_H_
#define KERAS_SPARSE_OPS_CORE_GRADIENTS_DEVICE_MERGER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/core/device/device.h"
#include "ops/core/device/device_array.h"
#include "ops/core/gradients/gradient_merger.h"
#include "ops/core/gradients/output_gradient.h"

namespace keras_sparse::cuda_impl {

// Computes what GradientMerger computes, with the same sums, for gradients in a GPU's memory.
// Distinct ids are sorted.
class DeviceMerger {
 public:
  // Finds the distinct ids, and waits for the device to read their number. Returns InvalidArgument
  // for row_splits that do not rise. The buffers of gradients must outlive the merger.
  static Status Create(const std::vector<OutputGradient>& gradients, Device* device,
                       DeviceMerger* merger);

  int64_t num_entries(size_t gradient) const { return num_entries_[gradient]; }

  // Enqueues work on the device to write the results, all in its memory.
  Status Write(const std::vector<GradientMerger::Result>& results) const;

 private:
  // The ids of a gradient, sorted.
  struct SortedIds {
    DeviceArray<int64_t> ids;
    DeviceArray<uint32_t> entries;  // positions of the ids that have an entry
    DeviceArray<uint32_t> numbers;  // for each id in input order: the number of its first entry
  };

  //   num_entries  (1) in the GPU's memory
  static Status Sort(const OutputGradient& gradient, Device* device, uint32_t* num_entries,
                     SortedIds* sorted);

  Device* device_ = nullptr;
  std::vector<OutputGradient> gradients_;
  std::vector<SortedIds> sorted_;
  std::vector<uint32_t> num_entries_;
};

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_GRADIENTS_DEVICE_MERGER_H_
