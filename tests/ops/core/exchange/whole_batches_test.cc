#include "ops/core/exchange/whole_batches.h"

#include "tests/ops/core/exchange/placed_table.h"

namespace keras_sparse::whole_batches_test {

// Of two inputs, whose tables are on rank 1. The second one has more columns on the last rank.
ExchangeLayout Inputs(int64_t num_ranks, int64_t width = 1) {
  return Layout({{9, 1, {1}, {1}}, {5, width + 2, {1, num_ranks - 1}, {width, 2}}}, num_ranks, 0);
}

struct Sent {
  int64_t num_samples;
  uint32_t other_exchange = 0;
};

Status Check(const std::vector<Sent>& sent, int64_t* num_own_samples) {
  const ExchangeLayout layout = Inputs(static_cast<int64_t>(sent.size()));
  std::vector<std::vector<Word>> words(sent.size(), std::vector<Word>(kHeaderWords));
  std::vector<Block> blocks;
  for (size_t r = 0; r < sent.size(); ++r) {
    WriteStatus(Status::Ok(), layout.checksum + sent[r].other_exchange, words[r].data());
    WriteBatchSize(sent[r].num_samples, words[r].data());
    blocks.push_back({words[r].data(), kHeaderWords});
  }
  return CheckWholeBatches(layout, blocks, num_own_samples);
}

Status Check(const std::vector<Sent>& sent) {
  int64_t num_own_samples = 0;
  return Check(sent, &num_own_samples);
}

TEST(WholeBatches, AreDividedEvenly) {
  int64_t num_own_samples = 0;
  ASSERT_TRUE(IsOk(Check({{0}, {6}, {6}}, &num_own_samples)));
  EXPECT_EQ(num_own_samples, 2);
}

TEST(WholeBatches, MustBeTheSame) {
  const auto refused = [](const char* words, const Status& status) {
    EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, words, status));
  };
  refused("[rank 2 of 3] with dp_input=False", Check({{0}, {6}, {9}}));
  refused("9 samples, and 6 on rank 1", Check({{0}, {6}, {9}}));
  refused("[rank 1 of 2] The batch", Check({{0}, {3}}));
  refused("Received: -2 samples", Check({{0}, {-2}}));
  refused("Received: 2 of one input and 4 of another",
          CheckOwnBatch(Inputs(2), {4, 2}, FloatType::kFloat32));
}

TEST(WholeBatches, AreOfOneExchange) {
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition,
                        "[rank 1 of 2] every rank must make the same layers",
                        Check({{0}, {4, 1}})));
}

TEST(WholeBatches, AreOfFewerWordsThanRanksMaySend) {
  constexpr int64_t kWidth = 1 << 16;
  constexpr int64_t kMost = (int64_t{1} << 31) - 1 - 2 * kHeaderWords;
  const ExchangeLayout two = Inputs(2, kWidth);
  const ExchangeLayout three = Inputs(3, kWidth);
  const int64_t of_two = 2 * (kMost / (kWidth + 3));
  const int64_t of_three = 3 * (kMost / 2 / (kWidth + 1));  // to two others
  const auto check = [](const ExchangeLayout& layout, int64_t num_samples, FloatType type) {
    return CheckOwnBatch(layout, {num_samples, num_samples}, type);
  };
  EXPECT_TRUE(IsOk(check(two, of_two, FloatType::kFloat32)));
  EXPECT_TRUE(IsOk(check(two, 2 * of_two, FloatType::kFloat16)));
  EXPECT_TRUE(IsOk(check(three, of_three, FloatType::kFloat32)));
  const char* words = "a rank may send others fewer than 2^31 words";
  for (const Status& status : {check(two, of_two + 2, FloatType::kFloat32),
                               check(two, 2 * of_two + 4, FloatType::kFloat16),
                               check(three, of_three + 3, FloatType::kFloat32)}) {
    EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, words, status));
  }
  EXPECT_TRUE(IsOk(CheckOwnBatch(two, {}, FloatType::kFloat32))) << "of a rank without parts";
}

TEST(ExchangedTable, NamesTheFirstIdOutsideOfIt) {
  ExchangedTable table = Inputs(2).tables[1];
  const std::vector<int64_t> ids = {4, 0, -3, 5};
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "id must be in [0, 5) for table 'table1'",
                        table.CheckIds(ids.data(), 4)));
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "Received: ids[2] = -3",
                        table.CheckIds(ids.data(), 4)));
  EXPECT_TRUE(IsOk(table.CheckIds(ids.data(), 2)));
  table.out_of_range_is_zero = true;
  EXPECT_TRUE(IsOk(table.CheckIds(ids.data(), 4)));
}

}  // namespace keras_sparse::whole_batches_test
