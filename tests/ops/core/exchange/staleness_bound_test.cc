#include "ops/core/exchange/staleness_bound.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace keras_sparse {
namespace {

// A lookup of a table of this rank.
StalenessBound::Lookup Lookup(int64_t round, uint32_t num_updates, int64_t num_gradients,
                              int64_t num_other_changes = 0, int64_t stage = 0) {
  return {stage, round, {num_updates}, {num_other_changes}, num_gradients};
}

TEST(StalenessBound, KnowsNothingBeforeRanksAgree) {
  const StalenessBound bound;
  EXPECT_EQ(bound.MostMissed(Lookup(0, 0, 0)), -1);
}

TEST(StalenessBound, CountsUpdatesSinceRanksAgreed) {
  StalenessBound bound;
  bound.Agree(Lookup(3, 10, 7), 2);
  EXPECT_EQ(bound.MostMissed(Lookup(4, 10, 7)), 2) << "an evaluation";
  EXPECT_EQ(bound.MostMissed(Lookup(4, 11, 8)), 3);
  EXPECT_EQ(bound.MostMissed(Lookup(4, 15, 8)), 7) << "gradients that were used again";
  bound.Agree(Lookup(4, 11, 8), 2);
  EXPECT_EQ(bound.MostMissed(Lookup(5, 12, 9)), 3);
}

TEST(StalenessBound, DoesNotKnowWhereOwnTablesAreNotTrainedAndOthersAre) {
  StalenessBound bound;
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(bound.num_gradients(), i);
    bound.CountGradients();
  }
  bound.Agree(Lookup(3, 10, 7), 2);
  EXPECT_EQ(bound.MostMissed(Lookup(4, 10, 8)), -1);
  EXPECT_EQ(bound.MostMissed(Lookup(4, 11, 9)), -1);
  EXPECT_EQ(bound.MostMissed(Lookup(4, 12, 9)), 4);
}

TEST(StalenessBound, CountsUpdatesThatGoAround) {
  StalenessBound bound;
  bound.Agree(Lookup(3, std::numeric_limits<uint32_t>::max(), 0), 0);
  EXPECT_EQ(bound.MostMissed(Lookup(4, 2, 1)), 3);
}

TEST(StalenessBound, KnowsNothingAfterOtherChanges) {
  StalenessBound bound;
  bound.Agree(Lookup(3, 10, 7, 4), 0);
  EXPECT_EQ(bound.MostMissed(Lookup(4, 11, 8, 5)), -1);
  EXPECT_EQ(bound.MostMissed(Lookup(4, 11, 8, 4)), 1);
}

TEST(StalenessBound, KnowsNothingOfOlderRoundsAndOtherStages) {
  StalenessBound bound;
  bound.Agree(Lookup(3, 10, 7, 0, 1), 0);
  EXPECT_EQ(bound.MostMissed(Lookup(3, 10, 7, 0, 1)), -1);
  EXPECT_EQ(bound.MostMissed(Lookup(2, 10, 7, 0, 1)), -1);
  EXPECT_EQ(bound.MostMissed(Lookup(4, 10, 7, 0, 0)), -1);
  EXPECT_EQ(bound.MostMissed(Lookup(5, 11, 8, 0, 1)), 1);
}

TEST(StalenessBound, ForgetsWhereRanksDoNotAgree) {
  StalenessBound bound;
  bound.Agree(Lookup(3, 10, 7), 0);
  bound.Forget();
  EXPECT_EQ(bound.MostMissed(Lookup(4, 10, 7)), -1);
  bound.Agree(Lookup(5, 10, 7), 0);
  EXPECT_EQ(bound.MostMissed(Lookup(6, 11, 8)), 1);
}

}  // namespace
}  // namespace keras_sparse
