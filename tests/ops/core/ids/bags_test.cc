#include "ops/core/ids/bags.h"

#include <cmath>

#include "tests/ops/core/support/table_testing.h"

namespace keras_sparse::bags_test {

TEST(ParseCombiner, KnowsEachCombinerByName) {
  Combiner combiner = Combiner::kSum;
  EXPECT_TRUE(IsOk(ParseCombiner("none", &combiner)));
  EXPECT_EQ(combiner, Combiner::kNone);
  EXPECT_TRUE(IsOk(ParseCombiner("sum", &combiner)));
  EXPECT_EQ(combiner, Combiner::kSum);
  EXPECT_TRUE(IsOk(ParseCombiner("mean", &combiner)));
  EXPECT_EQ(combiner, Combiner::kMean);
  EXPECT_TRUE(IsOk(ParseCombiner("sqrtn", &combiner)));
  EXPECT_EQ(combiner, Combiner::kSqrtN);
  EXPECT_TRUE(
      FailsWith(StatusCode::kInvalidArgument, "combiner='max'", ParseCombiner("max", &combiner)));
}

TEST(Bags, TakesSplitsThatRiseFromZeroToTheNumberOfIds) {
  for (const std::vector<int64_t>& splits :
       {std::vector<int64_t>{0}, {0, 0}, {0, 0, 0, 3, 3}, {0, 3}, {0, 1, 2, 3}}) {
    EXPECT_TRUE(IsOk(BagsOf(Combiner::kSum, splits).Check()));
  }
}

TEST(Bags, RefusesSplitsThatDoNot) {
  for (const std::vector<int64_t>& splits :
       {std::vector<int64_t>{1, 3}, {0, 2, 1, 3}, {0, 4, 3}, {0, -1, 3}, {0, 2}, {0}, {-1, 3}}) {
    Bags bags = BagsOf(Combiner::kMean, splits);
    bags.num_ids = 3;
    EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument,
                          "`row_splits` must rise from 0 to the number of ids, 3", bags.Check()));
  }
}

TEST(Bags, RefusesMoreIdsThanAPositionCanName) {
  Bags bags;
  bags.num_ids = bags.num_bags = int64_t{1} << 32;
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "4294967296 ids", bags.Check()));
}

TEST(Bags, ScalesByTheDivisorOfItsCombiner) {
  const std::vector<int64_t> splits = {0, 2, 2, 3};
  const std::vector<float> weights = {3, 4, 0};
  EXPECT_EQ(BagsOf(Combiner::kSum, splits, weights).Scale(0), 1);
  EXPECT_FLOAT_EQ(BagsOf(Combiner::kMean, splits, weights).Scale(0), 1.0f / 7);
  EXPECT_FLOAT_EQ(BagsOf(Combiner::kSqrtN, splits, weights).Scale(0), 1.0f / 5);
  EXPECT_FLOAT_EQ(BagsOf(Combiner::kMean, splits).Scale(0), 0.5f);
  EXPECT_FLOAT_EQ(BagsOf(Combiner::kSqrtN, splits).Scale(0), std::sqrt(0.5f));
}

TEST(Bags, ScalesEmptyBagsAndZeroDivisorsToZero) {
  const std::vector<int64_t> splits = {0, 0, 2, 3};
  const std::vector<float> weights = {1, -1, 0};
  EXPECT_EQ(BagsOf(Combiner::kMean, splits).Scale(0), 0);
  EXPECT_EQ(BagsOf(Combiner::kSqrtN, splits).Scale(0), 0);
  EXPECT_EQ(BagsOf(Combiner::kMean, splits, weights).Scale(1), 0);
  EXPECT_EQ(BagsOf(Combiner::kSqrtN, splits, weights).Scale(2), 0);
}

// Runs that together are all bags, in order.
void ExpectCovered(const Bags& bags, int64_t ids_per_run) {
  const std::vector<int64_t> cuts = CutBags(bags, ids_per_run);
  ASSERT_GE(cuts.size(), 2u);
  EXPECT_EQ(cuts.front(), 0);
  EXPECT_EQ(cuts.back(), bags.num_bags);
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    ASSERT_LE(cuts[i] + (bags.num_bags > 0 ? 1 : 0), cuts[i + 1]);
    if (cuts[i + 1] - cuts[i] <= 1) continue;
    // More than one bag: ids and bags together are about twice the wish at most, but for the last.
    const int64_t last = cuts[i + 1] - 1;
    const int64_t ids = bags.combiner == Combiner::kNone
                            ? last - cuts[i]
                            : bags.row_splits[last] - bags.row_splits[cuts[i]];
    ASSERT_LE(ids + last - cuts[i], 4 * ids_per_run);
  }
}

TEST(CutBags, CoversAllBagsWithRunsOfSimilarWork) {
  for (const int64_t num_bags : {0, 1, 2, 1000}) {
    for (const int64_t max_hotness : {1, 7, 3000}) {
      const auto splits = RandomSplits(num_bags, max_hotness, static_cast<uint64_t>(num_bags));
      for (const int64_t ids_per_run : {1, 10, 2048}) {
        ExpectCovered(BagsOf(Combiner::kSum, splits), ids_per_run);
      }
    }
  }
}

TEST(CutBags, CutsIdsWithoutBagsEvenly) {
  EXPECT_EQ(CutBags(NoBags(std::vector<int64_t>(25)), 10), (std::vector<int64_t>{0, 10, 20, 25}));
  EXPECT_EQ(CutBags(NoBags({}), 10), (std::vector<int64_t>{0, 0}));
}

TEST(CutBags, KeepsAHugeBagInOneRunAndCutsAroundIt) {
  const std::vector<int64_t> splits = {0, 1, 100000, 100001};
  ExpectCovered(BagsOf(Combiner::kSum, splits), 100);
  EXPECT_GE(CutBags(BagsOf(Combiner::kSum, splits), 100).size(), 3u);
}

TEST(CutBags, CutsEmptyBagsToo) {
  const std::vector<int64_t> splits(1001, 0);
  const auto cuts = CutBags(BagsOf(Combiner::kSum, splits), 10);
  EXPECT_EQ(cuts.size(), 51u);
  ExpectCovered(BagsOf(Combiner::kSum, splits), 10);
}

}  // namespace keras_sparse::bags_test
