#include "ops/core/table/change_log.h"

#include <algorithm>

#include "tests/ops/core/support/testing.h"

namespace keras_sparse::change_log_test {

std::vector<int64_t> Demoted(const ChangeLog& log, int64_t max_keys) {
  std::vector<int64_t> all;
  for (int64_t cursor = 0; cursor >= 0;) {
    std::vector<int64_t> keys;
    cursor = log.AppendDemoted(cursor, max_keys, &keys);
    all.insert(all.end(), keys.begin(), keys.end());
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<int64_t> Erased(const ChangeLog& log) {
  std::vector<int64_t> keys;
  EXPECT_EQ(log.AppendErased(0, INT64_MAX, &keys), -1);
  std::sort(keys.begin(), keys.end());
  return keys;
}

TEST(ChangeLog, KeepsNothingUntilItBegins) {
  ChangeLog log;
  const int64_t empty_bytes = log.bytes();
  EXPECT_TRUE(log.is_everything());
  for (int64_t key = 0; key < 10000; ++key) {
    log.AddDemoted(key);
    log.AddErased(key);
  }
  EXPECT_EQ(log.bytes(), empty_bytes);
  log.Begin();
  EXPECT_FALSE(log.is_everything());
  EXPECT_TRUE(Demoted(log, 10).empty());
  EXPECT_TRUE(Erased(log).empty());
}

TEST(ChangeLog, GivesEachKeyOnceInPieces) {
  ChangeLog log;
  log.Begin();
  std::vector<int64_t> keys = ExtremeKeys();
  for (int64_t key = 100; key < 9000; ++key) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (const int64_t key : keys) log.AddDemoted(key);
  }
  for (const int64_t max_keys : {int64_t{1}, int64_t{1000}, INT64_MAX}) {
    EXPECT_EQ(Demoted(log, max_keys), keys);
  }
  EXPECT_TRUE(Erased(log).empty()) << "of one kind and not of the other";
  log.AddErased(7);
  log.AddErased(7);
  EXPECT_EQ(Erased(log), std::vector<int64_t>{7});
}

TEST(ChangeLog, ForgetsWhenItBeginsAgainAndWhenEverythingChanges) {
  ChangeLog log;
  log.Begin();
  log.AddDemoted(1);
  log.AddErased(2);
  log.Begin();
  EXPECT_FALSE(log.is_everything());
  EXPECT_TRUE(Demoted(log, 10).empty());
  EXPECT_TRUE(Erased(log).empty());
  log.AddErased(2);
  log.SetEverything();
  EXPECT_TRUE(log.is_everything());
  EXPECT_TRUE(Erased(log).empty());
}

}  // namespace keras_sparse::change_log_test
