// PromoteRows: rows that are named come up, as their next gradient would bring them.
#include <tuple>

#include "tests/ops/core/device/device_testing.h"
#include "tests/ops/core/support/check_store.h"
#include "tests/ops/core/support/hbm_stacks.h"

namespace keras_sparse::promote_rows_test {

constexpr int64_t kDim = 8;
constexpr int64_t kRows = 3000;
constexpr int64_t kFirstBytes = 1000 * 192;

// Whether the first tier is a GPU's, and how it chooses the coldest rows.
class PromoteRowsOf : public ::testing::TestWithParam<std::tuple<bool, std::string>> {
 protected:
  PromoteRowsOf() : plain_(OpenWithRule(Dynamic(kDim), AdamRule())) {
    const auto [is_on_gpu, strategy] = GetParam();
    TableOptions options = Dynamic(kDim);
    if (is_on_gpu) {
      options.storage =
          HbmOver({"dram", "ssdhash"}, kFirstBytes, 100 * 160, folder_ / "rows", strategy);
    } else {
      options.storage = {{"ssdhash"}, {kFirstBytes, int64_t{1} << 30}, folder_ / "rows", strategy};
    }
    tiered_ = OpenWithRule(options, AdamRule());
    for (int64_t key = 0; key < kRows; key += 100) Train(Range(key, key + 100));
    EXPECT_GT(TierStatsOf(*tiered_)[0].rows, 100);
    EXPECT_LT(TierStatsOf(*tiered_)[0].rows, kRows - 500);
  }

  void Train(const std::vector<int64_t>& keys) {
    const std::vector<float> gradients =
        RandomFloats(static_cast<int64_t>(keys.size()) * kDim, seed_++);
    ASSERT_TRUE(IsOk(ApplyToEach({tiered_.get(), plain_.get()}, {0.1f, 0.1f}, keys, gradients)));
  }
  Status Promote(const std::vector<int64_t>& keys) {
    ThreadExecutor executor(2);
    return PromoteRows(tiered_.get(), keys.data(), static_cast<int64_t>(keys.size()), &executor,
                       &promotion_);
  }
  // How many of the keys a lookup finds in the first tier.
  int64_t NumAbove(const std::vector<int64_t>& keys) {
    const int64_t before = TierStatsOf(*tiered_)[0].hits;
    (void)Lookup(tiered_.get(), keys);
    return TierStatsOf(*tiered_)[0].hits - before;
  }
  void ExpectSame() {
    EXPECT_EQ(ExportAll(*tiered_), ExportAll(*plain_));
    EXPECT_EQ(NumRowsOf(*tiered_), kRows);
  }

  TempFolder folder_;
  std::unique_ptr<EmbeddingTable> tiered_;
  std::unique_ptr<EmbeddingTable> plain_;
  Promotion promotion_;
  uint64_t seed_ = 1;
};

TEST_P(PromoteRowsOf, BringsThemUpAndChangesNone) {
  const std::vector<int64_t> cold = Range(0, 60);
  EXPECT_LT(NumAbove(cold), 60);
  // Repeats, and keys without a row.
  std::vector<int64_t> keys = Range(-5, 60);
  keys.insert(keys.end(), {3, INT64_MIN, 59});
  ASSERT_TRUE(IsOk(Promote(keys)));
  EXPECT_EQ(promotion_.num_rows, 60);
  EXPECT_GT(promotion_.version, promotion_.version_before);
  EXPECT_EQ(NumAbove(cold), 60);
  ExpectSame();
  ASSERT_TRUE(IsOk(Promote(cold)));
  EXPECT_EQ(promotion_.num_rows, 0);
  ASSERT_TRUE(IsOk(Promote({})));
  EXPECT_EQ(promotion_.num_rows, 0);
  EXPECT_EQ(promotion_.version, promotion_.version_before);
  ExpectSame();
  // Rows have missed moves, some since before they came up.
  for (int i = 0; i < 3; ++i) Train(Range(kRows - 50, kRows));
  Train(Range(0, 30));
  ExpectSame();
}

TEST_P(PromoteRowsOf, LetsThemStayBesideOthersThatAreAbove) {
  const std::vector<int64_t> hot = Range(kRows - 50, kRows);
  for (int i = 0; i < 20; ++i) Train(hot);
  EXPECT_EQ(NumAbove(hot), 50);
  std::vector<int64_t> keys = Range(0, 20);
  keys.insert(keys.end(), hot.begin(), hot.end());
  ASSERT_TRUE(IsOk(Promote(keys)));
  EXPECT_EQ(promotion_.num_rows, 20);
  // As many others as there is room for, each of which is used once or twice.
  for (int64_t key = 100; key < 1300; key += 100) Train(Range(key, key + 100));
  if (std::get<1>(GetParam()) == "LFU") {
    EXPECT_EQ(NumAbove(hot), 50);
  }
  ExpectSame();
}

INSTANTIATE_TEST_SUITE_P(All, PromoteRowsOf,
                         ::testing::Combine(::testing::Bool(),
                                            ::testing::Values(std::string("LRU"),
                                                              std::string("LFU"))),
                         [](const auto& instance) {
                           return std::string(std::get<0>(instance.param) ? "Gpu" : "Memory") +
                                  std::get<1>(instance.param);
                         });

TEST(PromoteRows, LeavesAllRowsWhereTheGpuHasNoRoom) {
  const TempFolder folder;
  TableOptions options = Dynamic(kDim);
  options.storage = HbmOver({"dram"}, kFirstBytes, 1, folder / "rows");
  const auto table = OpenWithRule(options, AdagradRule(0.1));
  for (int64_t key = 0; key < kRows; key += 500) {
    ASSERT_TRUE(
        IsOk(Apply(table.get(), {0.1f}, Range(key, key + 500), RandomFloats(500 * kDim, 1))));
  }
  const auto before = ExportAll(*table);
  const std::vector<int64_t> keys = Range(0, 700);
  Promotion promotion;
  FailAtEachAllocation(
      [&] { return PromoteRows(table.get(), keys.data(), 700, Inline(), &promotion); },
      [&] { EXPECT_EQ(ExportAll(*table), before); }, 1);
  EXPECT_GT(promotion.num_rows, 0);
  EXPECT_EQ(ExportAll(*table), before);
}

TEST(PromoteRows, OfAStaticTableAreAllAbove) {
  const auto table = OpenWithRule(Options(100, kDim), SgdRule());
  const std::vector<int64_t> keys = Range(0, 100);
  Promotion promotion;
  ASSERT_TRUE(IsOk(PromoteRows(table.get(), keys.data(), 100, Inline(), &promotion)));
  EXPECT_EQ(promotion.num_rows, 0);
  const int64_t outside = 100;
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "must be in [0, 100)",
                        PromoteRows(table.get(), &outside, 1, Inline(), &promotion)));
}

}  // namespace keras_sparse::promote_rows_test
