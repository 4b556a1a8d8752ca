// Steps that a table refuses, in either memory: no table of the step changes.
#include "ops/core/operations/check_room.h"
#include "tests/ops/core/device/device_testing.h"
#include "tests/ops/core/support/check_store.h"
#include "tests/ops/core/support/eviction_testing.h"
#include "tests/ops/core/support/filter_testing.h"
#include "tests/ops/core/support/hbm_stacks.h"
#include "tests/ops/core/support/table_access.h"

namespace keras_sparse::hbm_room_test {

constexpr int64_t kDim = 4;

// Of Adagrad's records, 32 bytes each, the GPU's memory takes so many rows.
std::unique_ptr<EmbeddingTable> OnGpu(int64_t room, const std::shared_ptr<Device>& device) {
  TableOptions options = Dynamic(kDim);
  options.name = "of " + std::to_string(room);
  options.storage.device = device;
  options.storage.sizes = {room * 32};
  return OpenWithRule(options, AdagradRule(0.1));
}

TEST(HbmRoom, ThatOneTableLacksStopsTheUpdateOfAll) {
  const std::shared_ptr<Device> device = OpenDevice();
  const auto roomy = OnGpu(1000, device);
  const auto tight = OnGpu(50, device);
  const auto step = [&](const std::vector<int64_t>& ids) {
    const std::vector<float> grads(ids.size() * kDim, 1);
    return ApplyOnDevice({Request(roomy.get(), ids, NoBags(ids), grads, {0.1f}),
                          Request(tight.get(), ids, NoBags(ids), grads, {0.1f})},
                         Inline());
  };
  ASSERT_TRUE(IsOk(step(Range(0, 40))));
  const auto before = ExportAll(*roomy);
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted,
                        "`storage_size` must hold all rows of table 'of 50', which has no lower "
                        "tier; give it more, or a lower tier by `storage_type`, or evict rows. "
                        "Received: 1600 bytes where 60 rows take 1920",
                        step(Range(0, 60))));
  EXPECT_EQ(ExportAll(*roomy), before);
  // Keys that the filter does not let in need no room.
  ASSERT_TRUE(IsOk(SetFilter(tight.get(), Counter(2))));
  ASSERT_TRUE(IsOk(step(Range(0, 60))));
  EXPECT_EQ(NumRowsOf(*tight), 40);
  EXPECT_FALSE(step(Range(0, 61)).ok());
  EXPECT_EQ(NumRowsOf(*roomy), 60);
}

// Of two tables one has to let rows go, which it may of its own, over a lower tier or not.
TEST(HbmRoom, ThatOneTableLacksLetsNoRowOfAnotherGo) {
  const TempFolder folder;
  const std::shared_ptr<Device> device = OpenDevice();
  for (const bool has_lower_tier : {false, true}) {
    TableOptions options = Dynamic(kDim);
    if (has_lower_tier) options.storage = HbmOver({"dram"}, 40 * 64, 1 << 20, folder / "rows");
    options.storage.device = device;
    const auto limited = OpenWithRule(options, AdagradRule(0.1));
    ASSERT_TRUE(IsOk(SetRowLimit(limited.get(), 100, MakePolicy(WeightBelow(1e9)))));
    const auto tight = OnGpu(50, device);
    const auto step = [&](const std::vector<int64_t>& ids, const std::vector<int64_t>& others) {
      const std::vector<float> grads(ids.size() * kDim, 1);
      const std::vector<float> of_others(others.size() * kDim, 1);
      return ApplyOnDevice({Request(limited.get(), ids, NoBags(ids), grads, {0.1f}),
                            Request(tight.get(), others, NoBags(others), of_others, {0.1f})},
                           Inline());
    };
    ASSERT_TRUE(IsOk(step(Range(0, 100), {1})));
    const auto before = ExportAll(*limited);
    EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "`storage_size` must hold all rows",
                          step(Range(100, 110), Range(0, 60))));
    EXPECT_EQ(ExportAll(*limited), before);
    ASSERT_TRUE(IsOk(step(Range(100, 110), Range(0, 5))));
    EXPECT_EQ(NumRowsOf(*limited), 10);
  }
}

TEST(CheckUpdate, RefusesWhatTheUpdateWould) {
  TableOptions in_memory = Options(5, kDim);
  TableOptions on_gpu = in_memory;
  on_gpu.storage.device = OpenDevice();
  for (const TableOptions& options : {in_memory, on_gpu}) {
    const auto table = OpenWithRule(options, AdagradRule(0.1));
    const std::vector<int64_t> ids = {1, 9};
    EXPECT_TRUE(IsOk(CheckUpdate(table.get(), ids.data(), 1, Inline())));
    EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "Received: ids[1] = 9",
                          CheckUpdate(table.get(), ids.data(), 2, Inline())));
  }
  const auto limited = OpenWithRule(Dynamic(kDim), AdagradRule(0.1));
  ASSERT_TRUE(IsOk(SetRowLimit(limited.get(), 1, nullptr)));
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "`max_rows` of table",
                        CheckUpdate(limited.get(), Range(0, 2).data(), 2, Inline())));
  EXPECT_EQ(NumRowsOf(*limited), 0);
}

TEST(CheckUpdate, TakesTheRoomThatTheUpdateNeeds) {
  const auto table = OnGpu(50, OpenDevice());
  const std::vector<float> grads(60 * kDim, 1);
  const auto check = [&](const std::vector<int64_t>& ids) {
    return CheckUpdate(table.get(), ids.data(), static_cast<int64_t>(ids.size()), Inline());
  };
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "1600 bytes where 60 rows take 1920",
                        check(Range(0, 60))));
  EXPECT_EQ(NumRowsOf(*table), 0);
  std::vector<int64_t> ids = Range(0, 50);
  ids.insert(ids.end(), 10, 7);  // again
  ASSERT_TRUE(IsOk(check(ids)));
  ASSERT_TRUE(IsOk(Apply(table.get(), {0.1f}, ids, grads)));
  ASSERT_TRUE(IsOk(check(ids)));
  ASSERT_TRUE(IsOk(SetFilter(table.get(), Counter(2, true))));
  ASSERT_TRUE(IsOk(check({60, 61})));
  EXPECT_FALSE(check({60, 61, 60}).ok());
}

TEST(CheckUpdate, SaysThatTheGpuHasNoRoom) {
  FailAtEachAllocation(
      [table = std::shared_ptr<EmbeddingTable>(OnGpu(5000, OpenDevice()))] {
        return CheckUpdate(table.get(), Range(0, 3000).data(), 3000, Inline());
      },
      [] {}, 2);
}

}  // namespace keras_sparse::hbm_room_test
