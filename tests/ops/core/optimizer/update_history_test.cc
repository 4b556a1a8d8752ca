#include "ops/core/optimizer/update_history.h"

#include "tests/ops/core/support/testing.h"

namespace keras_sparse::update_history_test {

TEST(UpdateHistory, KeepsStepsWithTheSameNumbersAsARun) {
  UpdateHistory log;
  EXPECT_EQ(log.num_steps(), 0);
  for (const float rate : {1.0f, 1.0f, 1.0f, 2.0f, 1.0f}) log.Append({rate, 5});
  EXPECT_EQ(log.num_steps(), 5);
  EXPECT_EQ(log.run_lengths(), (std::vector<int64_t>{3, 1, 1}));
  EXPECT_EQ(log.numbers(), (std::vector<float>{1, 5, 2, 5, 1, 5}));
}

TEST(UpdateHistory, BeginsARunWhenAnyNumberChanges) {
  UpdateHistory log;
  log.Append({1, 5});
  log.Append({1, 6});
  log.Append({2, 6});
  EXPECT_EQ(log.run_lengths(), (std::vector<int64_t>{1, 1, 1}));
}

TEST(UpdateHistory, TellsNumbersApartByTheirBits) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  UpdateHistory log;
  for (const float rate : {0.0f, -0.0f, nan, nan}) log.Append({rate});
  EXPECT_EQ(log.run_lengths(), (std::vector<int64_t>{1, 1, 2}));
  EXPECT_EQ(Bits(log.numbers()), Bits({0.0f, -0.0f, nan}));
}

TEST(UpdateHistory, TakesNoMoreRoomForMoreStepsOfTheSameNumbers) {
  UpdateHistory log;
  log.Append({0.5f});
  const int64_t bytes = log.bytes();
  EXPECT_GT(bytes, 0);
  for (int step = 0; step < 1000; ++step) log.Append({0.5f});
  EXPECT_EQ(log.bytes(), bytes);
}

TEST(UpdateHistory, ForgetsTheStepsSoFar) {
  UpdateHistory log;
  for (const float rate : {1.0f, 2.0f, 2.0f}) log.Append({rate});
  log.Forget();
  EXPECT_EQ(log.bytes(), 0);
  EXPECT_EQ(log.num_steps(), 0);
  log.Append({2});
  EXPECT_EQ(log.num_steps(), 1);
  EXPECT_EQ(log.run_lengths(), (std::vector<int64_t>{1}));
  EXPECT_EQ(log.numbers(), (std::vector<float>{2}));
}

}  // namespace keras_sparse::update_history_test
