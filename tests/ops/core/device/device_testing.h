// A GPU for tests: a real one under nvcc, else the emulated one.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_DEVICE_DEVICE_TESTING_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_DEVICE_DEVICE_TESTING_H_

#include <functional>

#include "ops/core/device/device.h"
#include "ops/core/device/device_array.h"
#include "ops/core/device/device_code.h"
#include "tests/ops/core/support/testing.h"

namespace keras_sparse {

inline std::unique_ptr<Device> OpenDevice() {
  std::unique_ptr<Device> device;
  EXPECT_TRUE(IsOk(Device::Open(0, &device)));
  return device;
}

template <typename T>
std::vector<T> Values(const DeviceArray<T>& array) {
  std::vector<T> values;
  EXPECT_TRUE(IsOk(array.Read(&values)));
  return values;
}

template <typename T>
DeviceArray<T> OnDevice(Device* device, const std::vector<T>& values) {
  DeviceArray<T> array;
  EXPECT_TRUE(IsOk(DeviceArray<T>::Copy(device, values, &array)));
  return array;
}

// Runs `body` once on a GPU, or on the emulated one in several orders of lanes and blocks, by one
// thread and by several.
template <typename Body>
void InAnyOrder(const Body& body) {
#ifdef __CUDACC__
  body();
#else
  const emulated::Options before = emulated::options();
  for (int threads = 1; threads <= 3; threads += 2) {
    emulated::options().seed = static_cast<uint64_t>(10 + threads);
    emulated::options().num_threads = threads;
    body();
  }
  emulated::options() = before;
#endif
}

// Calls `change` with a GPU that has no room for any more allocation, for all but the first, the
// first two and so on, until it succeeds. Each time it fails, `check` is called; it is expected to
// be `at_least` so often. A real GPU has room: there it is called once, and succeeds.
inline void FailAtEachAllocation(const std::function<Status()>& change,
                                 const std::function<void()>& check, int at_least = 0) {
#ifdef __CUDACC__
  (void)check;
  (void)at_least;
  EXPECT_TRUE(IsOk(change()));
#else
  for (int num_failures = 0;; ++num_failures) {
    emulated::options().allocations_left = num_failures;
    const Status status = change();
    emulated::options().allocations_left = emulated::Options().allocations_left;
    if (status.ok()) {
      EXPECT_GE(num_failures, at_least);
      return;
    }
    EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "must fit the GPU's memory", status));
    check();
  }
#endif
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_DEVICE_DEVICE_TESTING_H_
