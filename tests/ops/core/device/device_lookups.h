// Ops on vectors for tables in a GPU's memory, where what they read and write must be too.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_DEVICE_DEVICE_LOOKUPS_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_DEVICE_DEVICE_LOOKUPS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/device/device_array.h"
#include "ops/core/operations/apply.h"
#include "ops/core/operations/lookup.h"
#include "tests/ops/core/support/testing.h"

namespace keras_sparse {

// Ids, their bags and what else an op reads, copied to a table's device.
class DeviceCopies {
 public:
  explicit DeviceCopies(const EmbeddingTable& table)
      : device_(table.options().storage.device.get()) {}

  template <typename T>
  const T* Of(const T* values, int64_t n) {
    if (values == nullptr) return nullptr;
    DeviceArray<char> copy;
    const auto* bytes = reinterpret_cast<const char*>(values);
    EXPECT_TRUE(IsOk(DeviceArray<char>::Copy(
        device_, {bytes, bytes + n * static_cast<int64_t>(sizeof(T))}, &copy)));
    copies_.push_back(std::move(copy));
    return reinterpret_cast<const T*>(copies_.back().data());
  }
  Bags Of(Bags bags) {
    bags.row_splits = Of(bags.row_splits, bags.num_bags + 1);
    bags.weights = Of(bags.weights, bags.num_ids);
    return bags;
  }

 private:
  Device* device_;
  std::vector<DeviceArray<char>> copies_;
};

// LookupRows for one table.
//   rows  (bags.num_bags, dim)
inline Status LookupOnDevice(EmbeddingTable* table, const std::vector<int64_t>& ids,
                             const Bags& bags, std::vector<float>* rows, Executor* executor) {
  DeviceCopies copies(*table);
  DeviceArray<float> output;
  KERAS_SPARSE_RETURN_IF_ERROR(
      DeviceArray<float>::Copy(table->options().storage.device.get(), *rows, &output));
  KERAS_SPARSE_RETURN_IF_ERROR(LookupRows(
      {{table, copies.Of(ids.data(), bags.num_ids), copies.Of(bags), output.data()}}, executor));
  return output.Read(rows);
}

// ApplyGradients.
inline Status ApplyOnDevice(const std::vector<ApplyRequest>& host_requests, Executor* executor) {
  std::vector<ApplyRequest> requests = host_requests;
  std::vector<DeviceCopies> copies;
  for (ApplyRequest& request : requests) {
    copies.emplace_back(*request.table);
    OutputGradient& gradient = request.gradient;
    gradient.ids = copies.back().Of(gradient.ids, gradient.bags.num_ids);
    const auto* grads = static_cast<const float*>(gradient.grads.data);
    gradient.grads.data = copies.back().Of(grads, gradient.bags.num_bags * gradient.dim);
    gradient.bags = copies.back().Of(gradient.bags);
  }
  return ApplyGradients(requests, executor);
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_DEVICE_DEVICE_LOOKUPS_H_
