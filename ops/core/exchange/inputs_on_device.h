// InputsOnDevice: how inputs use the reply rows, for kernels.
#ifndef KERAS_SPARSE_OPS_CORE_EXCHANGE_INPUTS_ON_DEVICE_H_
#define KERAS_SPARSE_OPS_CORE_EXCHANGE_INPUTS_ON_DEVICE_H_

#include <vector>

#include "ops/core/device/arrays_on_device.h"
#include "ops/core/exchange/combine_rows.h"

namespace keras_sparse::cuda_impl {

class InputsOnDevice {
 public:
  //   inputs  in host memory
  Status Copy(const std::vector<CombinedInput>& inputs, Device* device) {
    inputs_ = inputs;
    for (CombinedInput& each : inputs_) {
      Bags& bags = each.bags;
      arrays_.Add(&each.positions, bags.num_ids);
      arrays_.Add(&bags.row_splits, bags.num_bags + 1);
      arrays_.Add(&bags.weights, bags.num_ids);
      arrays_.Add(&bags.scales, bags.num_bags);
    }
    return arrays_.Copy(device);
  }

  // Returns the inputs with pointers to the device's memory.
  const std::vector<CombinedInput>& inputs() const { return inputs_; }

 private:
  std::vector<CombinedInput> inputs_;
  ArraysOnDevice arrays_;
};

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_EXCHANGE_INPUTS_ON_DEVICE_H_
