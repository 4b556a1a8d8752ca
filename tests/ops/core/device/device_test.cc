#include <cstdlib>
#include <thread>

#include "tests/ops/core/device/device_testing.h"

namespace keras_sparse::device_test {

#ifndef __CUDACC__
// Of a machine with several GPUs, which tests have none of.
TEST(DeviceScope, LeavesGpusAloneThatTheThreadHasNoneOf) {
  constexpr int kGpu = 5;
  std::unique_ptr<Device> device;
  std::thread([&] {
    ASSERT_TRUE(IsOk(Device::Open(kGpu, &device)));
    std::thread([&] {
      emulated::gpus_with_contexts() = 0;
      {
        const DeviceScope scope(*device);
        int current = 0;
        EXPECT_EQ(cudaGetDevice(&current), cudaSuccess);
        EXPECT_EQ(current, kGpu);
      }
      EXPECT_EQ(emulated::gpus_with_contexts(), 1u << kGpu) << "none on the first one";
      int current = 0;
      EXPECT_EQ(cudaSetDevice(3), cudaSuccess);
      {
        const DeviceScope scope(*device);
      }
      EXPECT_EQ(cudaGetDevice(&current), cudaSuccess);
      EXPECT_EQ(current, 3) << "the one that it had";
    }).join();
  }).join();
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(EmulatedDevice, HasMemoryThatIsNoneOfTheCpus) {
  const auto device = OpenDevice();
  const auto array = OnDevice(device.get(), std::vector<int>{1, 2, 3});
  const auto read_often = [&] {
    for (int i = 0; i < 1000; ++i) {
      EXPECT_EQ(Values(array)[2], 3);
      if (*array.data() != 1) std::abort();
    }
  };
  EXPECT_DEATH(read_often(), "the CPU used the memory of the emulated GPU");
}
#endif
#endif

}  // namespace keras_sparse::device_test
