#include "ops/core/record/hbm_records.h"

#include <numeric>

#include "ops/core/device/device_requests.h"
#include "tests/ops/core/device/device_testing.h"

namespace keras_sparse::hbm_records_test {

constexpr int64_t kUnlimited = kMostHbmRows;

// Records of words that are all different.
std::vector<uint32_t> Words(int64_t n, int64_t record_bytes, uint32_t first) {
  std::vector<uint32_t> words(static_cast<size_t>(n * record_bytes / 4));
  std::iota(words.begin(), words.end(), first);
  return words;
}

std::vector<uint32_t> Read(const HbmRecords& records, int64_t first, int64_t n) {
  std::vector<uint32_t> words(static_cast<size_t>(n * records.record_bytes() / 4));
  EXPECT_TRUE(IsOk(records.Read(first, n, words.data())));
  return words;
}

TEST(SlabSizes, NumberRowsOverSlabsWithoutAGap) {
  for (const SlabSizes sizes :
       {SlabSizes{6, 20}, SlabSizes{6, 6}, SlabSizes{0, 0}, SlabSizes{0, 2}, SlabSizes{3, 31}}) {
    uint32_t row = 0;
    for (uint32_t slab = 0; row < 100000; ++slab) {
      for (const uint32_t in_slab : {0u, (1u << sizes.ShiftOfSlab(slab)) - 1}) {
        const SlabSizes::Place place = sizes.PlaceOf(row + in_slab);
        ASSERT_EQ(place.slab, slab);
        ASSERT_EQ(place.row, in_slab);
      }
      row += 1u << sizes.ShiftOfSlab(slab);
    }
    const SlabSizes::Place last = sizes.PlaceOf(static_cast<uint32_t>(kMostHbmRows - 1));
    EXPECT_LT(last.row, uint64_t{1} << sizes.ShiftOfSlab(last.slab));
  }
}

TEST(HbmRecords, KeepWhatTheyHoldAsTheyGrow) {
  InAnyOrder([] {
    const auto device = OpenDevice();
    for (const int64_t record_bytes : {4, 12, 36, 800, 2000}) {
      // Slabs of 2 rows and more, or of 1024 bytes at most, which a record may exceed.
      for (const int64_t block_bytes : {int64_t{1024}, HbmRecords::kBlockBytes}) {
        HbmRecords records(device.get(), record_bytes, kUnlimited, block_bytes);
        std::vector<uint32_t> expected;
        for (const int64_t num_rows : {1, 3, 40, 700}) {
          const int64_t before = records.num_rows();
          ASSERT_TRUE(IsOk(records.Grow(num_rows)));
          ASSERT_GE(records.num_rows(), num_rows);
          const int64_t n = records.num_rows() - before;
          const std::vector<uint32_t> words =
              Words(n, record_bytes, static_cast<uint32_t>(expected.size()));
          ASSERT_TRUE(IsOk(records.Write(before, n, words.data())));
          expected.insert(expected.end(), words.begin(), words.end());
          EXPECT_EQ(Read(records, 0, records.num_rows()), expected);
        }
        EXPECT_GE(records.bytes(), 700 * record_bytes);
      }
    }
  });
}

__global__ void ReadKernel(RecordsView view, uint32_t* firsts) {
  for (int64_t i = cuda_impl::LaneOfKernel(); i < view.num_rows; i += cuda_impl::LanesOfKernel()) {
    firsts[i] = *reinterpret_cast<const uint32_t*>(view.Record(static_cast<uint32_t>(i)));
  }
}

TEST(HbmRecords, StayWhereAViewHasThem) {
  const auto device = OpenDevice();
  HbmRecords records(device.get(), 4, kUnlimited, 1024);
  ASSERT_TRUE(IsOk(records.Grow(100)));
  const int64_t n = records.num_rows();
  const std::vector<uint32_t> words = Words(n, 4, 7);
  ASSERT_TRUE(IsOk(records.Write(0, n, words.data())));
  const auto firsts = OnDevice(device.get(), std::vector<uint32_t>(static_cast<size_t>(n)));
  cuda_impl::Launch(ReadKernel, 2, 32, device->stream(), records.view(), firsts.data());
  ASSERT_TRUE(IsOk(records.Grow(10000)));  // while that is being done
  EXPECT_EQ(Values(firsts), words);
}

TEST(HbmRecords, AreCopiedByTheirNumbers) {
  InAnyOrder([] {
    const auto device = OpenDevice();
    for (const int64_t record_bytes : {4, 20, 200}) {
      HbmRecords records(device.get(), record_bytes, kUnlimited, 2048);
      ASSERT_TRUE(IsOk(records.Grow(900)));
      std::vector<uint32_t> all = Words(900, record_bytes, 1000000);
      ASSERT_TRUE(IsOk(records.Write(0, 900, all.data())));
      const std::vector<uint32_t> rows = {899, 0, 5, 64, 63, 700, 4};
      const int64_t words = record_bytes / 4;
      const auto n = static_cast<int64_t>(rows.size());
      const auto packed = OnDevice(device.get(), Words(n, record_bytes, 0));
      const auto rows_there = OnDevice(device.get(), rows);
      records.Scatter(rows_there.data(), n, reinterpret_cast<char*>(packed.data()));
      for (int64_t i = 0; i < n * words; ++i) {
        all[static_cast<size_t>(rows[static_cast<size_t>(i / words)] * words + i % words)] =
            static_cast<uint32_t>(i);
      }
      EXPECT_EQ(Read(records, 0, 900), all);
      const std::vector<uint32_t> again = {5, 5, 1};  // to read, repeats are allowed
      const auto again_there = OnDevice(device.get(), again);
      records.Gather(again_there.data(), 3, reinterpret_cast<char*>(packed.data()));
      const std::vector<uint32_t> got = Values(packed);
      for (int64_t i = 0; i < 3 * words; ++i) {
        EXPECT_EQ(
            got[static_cast<size_t>(i)],
            all[static_cast<size_t>(again[static_cast<size_t>(i / words)] * words + i % words)]);
      }
    }
  });
}

TEST(HbmRecords, TakeNoMoreThanTheMostRowsNeed) {
  const auto device = OpenDevice();
  HbmRecords fixed;
  ASSERT_TRUE(IsOk(HbmRecords::Allocate(device.get(), 1001, RecordLayout(8, {}, false), &fixed)));
  EXPECT_EQ(fixed.num_rows(), 1001);
  EXPECT_LT(fixed.bytes(), 1001 * 32 + 200);
  // A small table is small, and a large one has little to spare.
  for (const int64_t num_rows : {1, 2000, 100000}) {
    HbmRecords records(device.get(), 32, kUnlimited);
    for (int64_t n = 1; n < num_rows; n += n / 7 + 1) ASSERT_TRUE(IsOk(records.Grow(n)));
    ASSERT_TRUE(IsOk(records.Grow(num_rows)));
    EXPECT_LT(records.bytes(), (num_rows * 33 / 32 + 64) * 32 + 3000) << num_rows;
  }
}

TEST(HbmRecords, StayAsTheyAreIfTheyCannotGrow) {
  const auto device = OpenDevice();
  HbmRecords records(device.get(), 36, kUnlimited, 1 << 20);
  ASSERT_TRUE(IsOk(records.Grow(100)));
  const int64_t num_rows = records.num_rows();
  const int64_t bytes = records.bytes();
  const std::vector<uint32_t> words = Words(num_rows, 36, 3);
  ASSERT_TRUE(IsOk(records.Write(0, num_rows, words.data())));
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "holds at most 4294965248 rows",
                        records.Grow(kMostHbmRows + 1)));
  FailAtEachAllocation([&] { return records.Grow(200000); },
                       [&] {
                         EXPECT_EQ(records.bytes(), bytes);
                         EXPECT_EQ(records.num_rows(), num_rows);
                         EXPECT_EQ(Read(records, 0, num_rows), words);
                       });
  EXPECT_GE(records.num_rows(), 200000);
  EXPECT_EQ(Read(records, 0, num_rows), words);
}

}  // namespace keras_sparse::hbm_records_test
