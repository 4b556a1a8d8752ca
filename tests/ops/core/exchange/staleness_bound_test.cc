#include "ops/core/exchange/staleness_bound.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace keras_sparse {
namespace {

TEST(StalenessBound, KnowsNothingBeforeRanksAgree) {
  const StalenessBound bound;
  EXPECT_EQ(bound.MostMissed({0, 0, {}}), -1);
}

TEST(StalenessBound, CountsAStepForEveryLookup) {
  StalenessBound bound;
  bound.Agree({0, 3, {10, 20}}, 2);
  EXPECT_EQ(bound.MostMissed({0, 4, {10, 20}}), 3);
  EXPECT_EQ(bound.MostMissed({0, 4, {11, 20}}), 3);
  bound.Agree({0, 4, {11, 21}}, 2);
  EXPECT_EQ(bound.MostMissed({0, 5, {11, 21}}), 3);
}

TEST(StalenessBound, CountsTheUpdatesOfStepsWithoutALookup) {
  StalenessBound bound;
  bound.Agree({0, 3, {10, 20}}, 1);
  EXPECT_EQ(bound.MostMissed({0, 4, {11, 25}}), 6);
}

TEST(StalenessBound, CountsUpdatesThatGoAround) {
  StalenessBound bound;
  bound.Agree({0, 3, {std::numeric_limits<uint32_t>::max()}}, 0);
  EXPECT_EQ(bound.MostMissed({0, 4, {2}}), 3);
}

TEST(StalenessBound, KnowsNothingOfOlderRoundsAndOtherStages) {
  StalenessBound bound;
  bound.Agree({1, 3, {10}}, 0);
  EXPECT_EQ(bound.MostMissed({1, 3, {10}}), -1);
  EXPECT_EQ(bound.MostMissed({1, 2, {10}}), -1);
  EXPECT_EQ(bound.MostMissed({0, 4, {10}}), -1);
  EXPECT_EQ(bound.MostMissed({1, 5, {10}}), 1);
}

TEST(StalenessBound, ForgetsWhereRanksDoNotAgree) {
  StalenessBound bound;
  bound.Agree({0, 3, {10}}, 0);
  bound.Forget();
  EXPECT_EQ(bound.MostMissed({0, 4, {10}}), -1);
  bound.Agree({0, 5, {10}}, 0);
  EXPECT_EQ(bound.MostMissed({0, 6, {10}}), 1);
}

}  // namespace
}  // namespace keras_sparse
