#include "ops/core/record/row_uses.h"

#include "tests/ops/core/support/testing.h"

namespace keras_sparse::row_uses_test {

TEST(RowUses, HalvesOldUsesEvery1024Updates) {
  const RowUses uses = {40, 1000};
  EXPECT_EQ(uses.CountAt(1023), 40u);
  EXPECT_EQ(uses.CountAt(1024), 20u);
  EXPECT_EQ(uses.CountAt(1024 * 3), 5u);
  EXPECT_EQ(uses.CountAt(1024 * 64), 0u);
  EXPECT_EQ(uses.UsedAt(1024).count, 21u);
  EXPECT_EQ(uses.UsedAt(1024).last, 1024u);
  EXPECT_EQ((RowUses{~0u, 5}).UsedAt(6).count, ~0u);
}

TEST(RowUses, FollowAClockThatWraps) {
  EXPECT_GT(RecencyScore(3, 5), RecencyScore(~0u - 3, 5));
  EXPECT_EQ((RowUses{8, ~0u - 1023}).CountAt(0), 4u);
  EXPECT_GT((RowUses{4, ~0u}).FrequencyScore(3), (RowUses{1, 3}).FrequencyScore(3));
}

TEST(NumRowsKept, LetsASixteenthGoAndAsManyRowsAsCameIn) {
  EXPECT_EQ(NumRowsKept(160, 160, 0), 160);
  EXPECT_EQ(NumRowsKept(161, 160, 0), 150);
  EXPECT_EQ(NumRowsKept(160, 160, 1), 159 - 9);
  EXPECT_EQ(NumRowsKept(200, 160, 1000), 75);  // room for no more than half
  EXPECT_EQ(NumRowsKept(5, 0, 5), 0);
  EXPECT_EQ(NumRowsKept(161, 160, 0, 3, 4), 153);
}

}  // namespace keras_sparse::row_uses_test
