#include "ops/core/exchange/batch_headers.h"

#include "tests/ops/core/support/testing.h"

namespace keras_sparse {
namespace batch_headers_test {

constexpr int64_t kNone = BatchHeader::kNone;
const std::vector<BatchTable> kTables = {{"users", 9}, {"items", 5}};

Status Check(const std::vector<BatchHeader>& headers) {
  int64_t num_own_samples = 0;
  return CheckWholeBatches(headers, 0, kTables, &num_own_samples);
}

TEST(WholeBatches, AreDividedEvenly) {
  int64_t num_own_samples = 0;
  const std::vector<BatchHeader> headers = {{7, -1, kNone, 0}, {7, 4, kNone, 0}};
  ASSERT_TRUE(IsOk(CheckWholeBatches(headers, 0, kTables, &num_own_samples)));
  EXPECT_EQ(num_own_samples, 2);
}

TEST(WholeBatches, MustBeTheSame) {
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "[rank 2 of 3] with dp_input=False",
                        Check({{7, -1, kNone, 0}, {7, 6, kNone, 0}, {7, 9, kNone, 0}})));
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "9 samples, and 6 on rank 1",
                        Check({{7, -1, kNone, 0}, {7, 6, kNone, 0}, {7, 9, kNone, 0}})));
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "[rank 0 of 2] The batch",
                        Check({{7, 3, kNone, 0}, {7, 3, kNone, 0}})));
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "Received: 2 of one input and 4 of another",
                        Check({{7, 4, kNone, 0}, {7, 2, BatchHeader::kUnequalInputs, 4}})));
}

TEST(WholeBatches, TellTheFaultsOfAllRanks) {
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument,
                        "[rank 1 of 2] id must be in [0, 5) for table 'items'",
                        Check({{7, 4, kNone, 0}, {7, 4, 1, -3}})));
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "Received: id -3 in inputs[1]",
                        Check({{7, 4, kNone, 0}, {7, 4, 1, -3}})));
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "[rank 1 of 2] a rank may send",
                        Check({{7, 4, kNone, 0}, {7, 4, BatchHeader::kTooManyWords, 1}})));
}

TEST(WholeBatches, AreOfOneExchange) {
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "[rank 1 of 2] ranks must call layers",
                        Check({{7, 4, kNone, 0}, {8, 2, 1, 99}})));
}

}  // namespace batch_headers_test
}  // namespace keras_sparse
