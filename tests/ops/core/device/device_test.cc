#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "ops/core/device/device_requests.h"
#include "ops/core/device/device_sort.h"
#include "ops/core/device/device_trace.h"
#include "tests/ops/core/device/device_testing.h"

namespace keras_sparse::device_test {

__global__ void AddKernel(int* to, int number) { atomicAdd(to, number); }

// Enqueues work of each kind.
void WorkOn(Device* device) {
  const auto array = OnDevice(device, std::vector<int>{1, 2, 3});
  cuda_impl::Launch(AddKernel, 2, 4, device->stream(), array.data(), 5);
  EXPECT_EQ(Values(array)[0], 41);
  const auto is_chosen = OnDevice(device, std::vector<uint8_t>{0, 1});
  DeviceArray<uint32_t> places;
  ASSERT_TRUE(IsOk(DeviceArray<uint32_t>::Allocate(device, 2, &places)));
  ASSERT_TRUE(IsOk(device->Fill(places.data(), 0, 8)));
  ASSERT_TRUE(
      IsOk(cuda_impl::SelectPlaces(is_chosen.data(), 2, device, places.data(), places.data() + 1)));
  ASSERT_TRUE(IsOk(device->Wait()));
}

TEST(DeviceTrace, RecordsWorkInItsOrderWhileItIsOn) {
  const std::vector<std::string> expected = {
      "copy to the GPU",   "keras_sparse::device_test::AddKernel(int*, int)",
      "copy from the GPU", "wait",
      "copy to the GPU",   "fill",
      "Flagged",           "wait"};
  const auto device = OpenDevice();
  for (int round = 0; round < 2; ++round) {
    WorkOn(device.get());
    StartTrace();
#ifndef __CUDACC__
    const emulated::Counts before = emulated::counts();
#endif
    WorkOn(device.get());
    const std::vector<TracedWork> works = StopTrace();
    std::vector<std::string> names;
    int64_t last = 0;
    for (const TracedWork& work : works) {
      names.push_back(work.name);
      EXPECT_LE(last, work.called);
      EXPECT_LE(work.called, work.returned);
      last = work.called;
      EXPECT_EQ(work.name == "wait", work.began == 0);
      EXPECT_LE(work.began, work.ended);
      if (work.began == 0) continue;
      EXPECT_LT(std::abs(work.began - work.called), int64_t{1} << 30) << "of one clock";
    }
    ASSERT_EQ(names, expected);
    EXPECT_EQ(works[0].bytes, 12);
    EXPECT_EQ(works[5].bytes, 8);
#ifndef __CUDACC__
    const emulated::Counts& counts = emulated::counts();
    EXPECT_EQ(counts.launches - before.launches, 2);
    EXPECT_EQ(counts.copies_to_device - before.copies_to_device, 2);
    EXPECT_EQ(counts.copies_to_host - before.copies_to_host, 1);
    EXPECT_EQ(counts.fills - before.fills, 1);
    EXPECT_EQ(counts.waits - before.waits, 2);
#endif
  }
  WorkOn(device.get());
  StartTrace();
  EXPECT_EQ(ToJson(StopTrace()), "[]") << "what was done while it was off";
}

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
