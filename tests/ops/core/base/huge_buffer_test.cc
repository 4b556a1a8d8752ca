#include "ops/core/base/huge_buffer.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "tests/ops/core/support/testing.h"

namespace keras_sparse::huge_buffer_test {

constexpr int64_t kPage = 4096;

bool AllBytesAre(const HugeBuffer& buffer, int64_t begin, int64_t end, char value) {
  return std::all_of(buffer.data() + begin, buffer.data() + end,
                     [value](char byte) { return byte == value; });
}

TEST(HugeBuffer, IsZeroedAndAtLeastAsLargeAsAskedFor) {
  for (const int64_t bytes :
       {int64_t{0}, int64_t{1}, kPage, kHugePageBytes - 1, kHugePageBytes + 1}) {
    HugeBuffer buffer;
    ASSERT_TRUE(IsOk(HugeBuffer::Allocate(bytes, &buffer)));
    EXPECT_GE(buffer.bytes(), bytes);
    EXPECT_LT(buffer.bytes(), bytes + kPage * 16);
    EXPECT_TRUE(AllBytesAre(buffer, 0, buffer.bytes(), 0));
    std::fill_n(buffer.data(), buffer.bytes(), char{1});
  }
}

TEST(HugeBuffer, StartsOnAHugePageIfItHoldsOne) {
  for (int i = 0; i < 5; ++i) {
    HugeBuffer buffer;
    ASSERT_TRUE(IsOk(HugeBuffer::Allocate(kHugePageBytes + i * kPage, &buffer)));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kHugePageBytes, 0u);
  }
}

TEST(HugeBuffer, DiscardsOnlyWholePagesInsideTheRange) {
  HugeBuffer buffer;
  ASSERT_TRUE(IsOk(HugeBuffer::Allocate(3 * kHugePageBytes + kPage, &buffer)));
  std::fill_n(buffer.data(), buffer.bytes(), char{1});
  buffer.Discard(kHugePageBytes - 1, 3 * kHugePageBytes - 1);
  EXPECT_TRUE(AllBytesAre(buffer, 0, kHugePageBytes, 1));
  EXPECT_TRUE(AllBytesAre(buffer, kHugePageBytes, 2 * kHugePageBytes, 0));
  EXPECT_TRUE(AllBytesAre(buffer, 2 * kHugePageBytes, buffer.bytes(), 1));
}

TEST(HugeBuffer, DiscardsNothingOfARangeWithoutAWholePage) {
  HugeBuffer buffer;
  ASSERT_TRUE(IsOk(HugeBuffer::Allocate(64 << 10, &buffer)));
  std::fill_n(buffer.data(), buffer.bytes(), char{1});
  buffer.Discard(100, 4000);
  buffer.Discard(5000, 5000);
  EXPECT_TRUE(AllBytesAre(buffer, 0, buffer.bytes(), 1));
}

TEST(HugeBuffer, DiscardsUpToItsEnd) {
  HugeBuffer buffer;
  ASSERT_TRUE(IsOk(HugeBuffer::Allocate(kHugePageBytes + kPage, &buffer)));
  std::fill_n(buffer.data(), buffer.bytes(), char{1});
  buffer.Discard(0, buffer.bytes());
  EXPECT_TRUE(AllBytesAre(buffer, 0, buffer.bytes(), 0));
}

TEST(HugeBuffer, MovesItsMemory) {
  HugeBuffer first;
  ASSERT_TRUE(IsOk(HugeBuffer::Allocate(kPage, &first)));
  char* data = first.data();
  data[7] = 42;
  HugeBuffer second = std::move(first);
  EXPECT_EQ(second.data(), data);
  HugeBuffer third;
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(third.data()[7], 42);
}

TEST(HugeBuffer, RefusesMoreThanTheMachineHas) {
  HugeBuffer buffer;
  for (const int64_t bytes : {int64_t{1} << 50, INT64_MAX}) {
    EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted,
                          "bytes. Received: " + std::to_string(bytes) + " bytes",
                          HugeBuffer::Allocate(bytes, &buffer)));
  }
  EXPECT_EQ(buffer.data(), nullptr);
}

TEST(HugeBuffer, SaysHowMuchTheSystemWouldNotGive) {
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
  const rlimit low = {1, limit.rlim_max};
  HugeBuffer buffer;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &low), 0);
  const Status status = HugeBuffer::Allocate(int64_t{1} << 30, &buffer);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "bytes failed: Cannot allocate", status));
  EXPECT_EQ(buffer.data(), nullptr);
}

}  // namespace keras_sparse::huge_buffer_test
