#include "ops/core/first_tier/dense_array_tier.h"

#include <numeric>

#include "tests/ops/core/support/check_tier.h"

namespace keras_sparse::dense_array_tier_test {

std::unique_ptr<Initializer> Uniform() {
  std::unique_ptr<Initializer> initializer;
  EXPECT_TRUE(IsOk(Initializer::Create({"uniform", -1, 1, 3}, &initializer)));
  return initializer;
}

std::unique_ptr<FirstTier> Open(int64_t num_rows, const RecordLayout& layout) {
  std::unique_ptr<FirstTier> tier;
  ThreadExecutor executor(2, 7);
  EXPECT_TRUE(IsOk(DenseArrayTier::Open(num_rows, layout, *Uniform(), &executor, &tier)));
  return tier;
}

TEST(DenseArrayTier, KeepsTheContractOfAFirstTier) {
  std::vector<int64_t> keys(10000);
  std::iota(keys.begin(), keys.end(), 0);
  CheckTier([](const RecordLayout& layout) { return Open(10000, layout); }, keys, 10000);
}

TEST(DenseArrayTier, StartsWithTheInitialRowsAndSlots) {
  const RecordLayout layout(5, {{"accumulator", false, 0.1f}}, true);
  const auto tier = Open(300, layout);
  for (int64_t row = 0; row < 300; ++row) {
    std::vector<float> expected(10, 0.1f);
    Uniform()->Fill(row, 5, expected.data());
    const float* record = Find(*tier, row);
    EXPECT_EQ(std::vector<float>(record, record + 10), expected);
    EXPECT_EQ(layout.LastStep(record), 0);
  }
}

TEST(DenseArrayTier, ClearBringsTheInitialRowsBackAsOfItsStep) {
  const RecordLayout layout(2, {{"accumulator", false, 0.1f}}, true);
  const auto tier = Open(100, layout);
  const std::vector<float> before(Find(*tier, 42), Find(*tier, 42) + 4);
  std::fill_n(Find(*tier, 42), 4, 7.0f);
  ThreadExecutor executor(2);
  ASSERT_TRUE(IsOk(tier->Clear(*Uniform(), 7, &executor)));
  EXPECT_EQ(std::vector<float>(Find(*tier, 42), Find(*tier, 42) + 4), before);
  EXPECT_EQ(layout.LastStep(Find(*tier, 42)), 7);
}

TEST(DenseArrayTier, HasNoRowOutsideItsRange) {
  const auto tier = Open(10, RecordLayout(1, {}, false));
  for (const int64_t key : {int64_t{-1}, int64_t{10}, std::numeric_limits<int64_t>::min(),
                            std::numeric_limits<int64_t>::max()}) {
    EXPECT_EQ(Find(*tier, key), nullptr);
  }
}

TEST(DenseArrayTier, EndsAWalkFromACursorItDoesNotHave) {
  std::vector<int64_t> keys;
  std::vector<const float*> records;
  EXPECT_EQ(Open(10, RecordLayout(1, {}, false))->Walk(10, 5, &keys, &records), -1);
  EXPECT_EQ(Open(10, RecordLayout(1, {}, false))->Walk(int64_t{1} << 43, 5, &keys, &records), -1);
  EXPECT_TRUE(keys.empty());
}

TEST(DenseArrayTier, KeepsAllItsRows) {
  const auto tier = Open(10, RecordLayout(1, {}, false));
  EXPECT_FALSE(tier->Erase(3));
  EXPECT_NE(Find(*tier, 3), nullptr);
  EXPECT_EQ(tier->num_rows(), 10);
}

TEST(DenseArrayTier, NeedsHardlyMoreThanItsRecords) {
  EXPECT_LE(Open(100000, RecordLayout(7, {}, false))->bytes(), 100000 * 28 * 102 / 100);
}

TEST(DenseArrayTier, KeepsRowsThatCrossThePiecesOfARelayout) {
  // 80 MiB, more than a piece, and a record that no page is a multiple of.
  const int64_t num_rows = (80 << 20) / 516;
  const auto tier = Open(num_rows, RecordLayout(129, {}, false));
  ThreadExecutor executor(2, 1000);
  ASSERT_TRUE(IsOk(tier->Relayout(RecordLayout(129, {{"norm", true, 3}}, false), 0, &executor)));
  const auto initializer = Uniform();
  std::vector<float> expected(130, 3);
  for (int64_t row = 0; row < num_rows; row += 7) {
    initializer->Fill(row, 129, expected.data());
    const float* record = Find(*tier, row);
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), record)) << "row " << row;
  }
}

TEST(DenseArrayTier, RefusesASizeThatNoMachineHas) {
  std::unique_ptr<FirstTier> tier;
  ThreadExecutor executor(1);
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "must fit 62 bits",
                        DenseArrayTier::Open(int64_t{1} << 60, RecordLayout(64, {}, false),
                                             *Uniform(), &executor, &tier)));
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "must fit the machine",
                        DenseArrayTier::Open(int64_t{1} << 52, RecordLayout(64, {}, false),
                                             *Uniform(), &executor, &tier)));
}

}  // namespace keras_sparse::dense_array_tier_test
