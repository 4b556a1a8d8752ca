#include "ops/core/device/device_code.h"

#include <cstdlib>

#include "ops/core/device/device_array.h"
#include "tests/ops/core/device/device_testing.h"

namespace keras_sparse::device_code_test {

using cuda_impl::Launch;
using cuda_impl::Tile;

// Each lane gives its number to the lane before it.
template <int kLanes>
__global__ void PassOnKernel(int64_t* to) {
  using T = Tile<kLanes>;
  const int64_t lane = cuda_impl::LaneOfKernel();
  to[lane] = T::FromLane(lane, T::Lane() + 1);
}

template <int kLanes>
void ExpectLanesPassOn() {
  const auto device = OpenDevice();
  DeviceArray<int64_t> array;
  ASSERT_TRUE(IsOk(DeviceArray<int64_t>::Allocate(device.get(), 3 * 64, &array)));
  Launch(PassOnKernel<kLanes>, 3, 64, device->stream(), array.data());
  const std::vector<int64_t> got = Values(array);
  for (int64_t i = 0; i < array.size(); ++i) {
    const int64_t first = i / kLanes * kLanes;
    EXPECT_EQ(got[static_cast<size_t>(i)], first + (i + 1 - first) % kLanes);
  }
}

TEST(Tile, PassesValuesBetweenItsOwnLanes) {
  ExpectLanesPassOn<1>();
  ExpectLanesPassOn<2>();
  ExpectLanesPassOn<8>();
  ExpectLanesPassOn<32>();
}

__global__ void CountKernel(uint32_t* counts, int64_t n) {
  for (int64_t i = cuda_impl::LaneOfKernel(); i < n; i += cuda_impl::LanesOfKernel()) {
    atomicAdd(counts + i % 7, 1u);
  }
}

TEST(Launch, RunsEveryLaneOnce) {
  const auto device = OpenDevice();
  DeviceArray<uint32_t> counts;
  ASSERT_TRUE(IsOk(DeviceArray<uint32_t>::Copy(device.get(), std::vector<uint32_t>(7), &counts)));
  Launch(CountKernel, 5, 96, device->stream(), counts.data(), int64_t{7000});
  Launch(CountKernel, 0, 96, device->stream(), counts.data(), int64_t{7000});
  EXPECT_EQ(Values(counts), std::vector<uint32_t>(7, 1000));
}

TEST(DeviceArray, SaysWhatDoesNotFit) {
  const auto device = OpenDevice();
  DeviceArray<float> array;
  const Status status = DeviceArray<float>::Allocate(device.get(), int64_t{1} << 40, &array);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("4398046511104 bytes more, where "), std::string::npos)
      << status.message();
  EXPECT_TRUE(IsOk(device->Wait()));  // and goes on
}

TEST(DeviceArray, GivesItsMemoryBack) {
  const auto device = OpenDevice();
  const std::vector<float> values = {1, 2, 3};
  for (int i = 0; i < 20; ++i) {  // twice what an emulated GPU has
    DeviceArray<char> large;
    ASSERT_TRUE(IsOk(DeviceArray<char>::Allocate(device.get(), int64_t{8} << 20, &large)));
    DeviceArray<float> array;
    ASSERT_TRUE(IsOk(DeviceArray<float>::Copy(device.get(), values, &array)));
    DeviceArray<float> moved = std::move(array);
    EXPECT_EQ(Values(moved), values);
  }
}

#ifndef __CUDACC__

// What follows plants faults, which the emulator has to find. A GPU would do as it likes.

// A value in memory goes from lane to lane with nothing between.
__global__ void NoBarrierKernel(int* values, int* to) {
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  to[threadIdx.x] = values[(threadIdx.x + 1) % blockDim.x];
}
__global__ void BarrierKernel(int* values, int* to) {
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncthreads();
  to[threadIdx.x] = values[(threadIdx.x + 1) % blockDim.x];
}

bool PassesOnThroughMemory(void (*kernel)(int*, int*)) {
  constexpr int kLanes = 64;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    emulated::options().seed = seed;
    std::vector<int> values(kLanes, -1);
    std::vector<int> to(kLanes);
    Launch(kernel, 1, kLanes, nullptr, values.data(), to.data());
    for (int i = 0; i < kLanes; ++i) {
      if (to[static_cast<size_t>(i)] != (i + 1) % kLanes) return false;
    }
  }
  return true;
}

// A slot is claimed by a read and a write, where it takes one atomic.
__global__ void ClaimKernel(unsigned* next, int* owners) {
  atomicAdd(next + 1, 1u);  // where lanes may change
  const unsigned slot = *next;
  atomicAdd(next + 1, 1u);
  *next = slot + 1;
  owners[slot] = static_cast<int>(cuda_impl::LaneOfKernel());
}

unsigned Claimed() {
  std::vector<unsigned> next(2);
  std::vector<int> owners(64);
  Launch(ClaimKernel, 2, 32, nullptr, next.data(), owners.data());
  return next[0];
}

#ifdef __SANITIZE_THREAD__
// The sanitizer gives a process that had races this exit code.
constexpr int kHadRaces = 66;

TEST(EmulatorDeathTest, FindsRaces) {
  const auto races = [](auto body) {
    body();
    std::exit(0);
  };
  EXPECT_EXIT(races([] { (void)PassesOnThroughMemory(NoBarrierKernel); }),
              testing::ExitedWithCode(kHadRaces), "data race");
  EXPECT_EXIT(races([] { (void)Claimed(); }), testing::ExitedWithCode(kHadRaces), "data race");
  EXPECT_TRUE(PassesOnThroughMemory(BarrierKernel));
}
#else
TEST(Emulator, FindsAMissingBarrier) {
  EXPECT_TRUE(PassesOnThroughMemory(BarrierKernel));
  EXPECT_FALSE(PassesOnThroughMemory(NoBarrierKernel));
}

TEST(Emulator, FindsAClaimWithoutAnAtomic) { EXPECT_LT(Claimed(), 64u); }
#endif

__global__ void LeaveWarpKernel() {
  if (threadIdx.x % 2 == 0) return;
  __syncwarp();
}
__global__ void OtherMaskKernel() { __syncwarp(threadIdx.x % 2 == 0 ? 1u : ~0u); }

TEST(EmulatorDeathTest, FindsAMaskThatIsNotKept) {
  EXPECT_DEATH(Launch(LeaveWarpKernel, 1, 32, nullptr), "lane that is not there|do not come");
  EXPECT_DEATH(Launch(OtherMaskKernel, 1, 32, nullptr), "in its own mask|do not come");
}

#endif  // __CUDACC__

}  // namespace keras_sparse::device_code_test
