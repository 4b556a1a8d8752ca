#include "ops/core/first_tier/cache_strategy.h"

#include <algorithm>

#include "tests/ops/core/support/testing.h"

namespace keras_sparse::cache_strategy_test {

std::unique_ptr<CacheStrategy> Create(const std::string& strategy, int64_t num_rows) {
  std::unique_ptr<CacheStrategy> order;
  EXPECT_TRUE(IsOk(CacheStrategy::Create(strategy, &order)));
  order->Resize(num_rows);
  return order;
}

// The rows from the coldest to the hottest.
std::vector<uint32_t> Sorted(const CacheStrategy& order, std::vector<uint32_t> rows, uint32_t now) {
  std::stable_sort(rows.begin(), rows.end(), [&](uint32_t a, uint32_t b) {
    return order.Score(a, now) < order.Score(b, now);
  });
  return rows;
}

using Rows = std::vector<uint32_t>;

TEST(CacheStrategy, OfRecencyPutsTheLastUsedLast) {
  const auto order = Create("LRU", 4);
  for (uint32_t row = 0; row < 4; ++row) order->Start(row, row);
  EXPECT_EQ(Sorted(*order, {0, 1, 2, 3}, 3), (Rows{0, 1, 2, 3}));
  order->Use(0, 4);
  order->Use(2, 5);
  EXPECT_EQ(Sorted(*order, {0, 1, 2, 3}, 5), (Rows{1, 3, 0, 2}));
  EXPECT_EQ(order->bytes(), 16);
}

TEST(CacheStrategy, OfFrequencyPutsTheMostUsedLastAndBreaksTiesByRecency) {
  const auto order = Create("LFU", 4);
  for (uint32_t row = 0; row < 4; ++row) order->Start(row, row);
  for (uint32_t now = 4; now < 8; ++now) order->Use(1, now);
  order->Use(0, 8);
  EXPECT_EQ(Sorted(*order, {0, 1, 2, 3}, 8), (Rows{2, 3, 0, 1}));
}

TEST(CacheStrategy, OfFrequencyForgetsWhatWasHotLongAgo) {
  const auto order = Create("LFU", 2);
  order->Start(0, 0);
  for (uint32_t now = 1; now < 1000; ++now) order->Use(0, now);
  order->Start(1, 1000);
  for (uint32_t now = 1001; now < 1010; ++now) order->Use(1, now);
  EXPECT_EQ(Sorted(*order, {0, 1}, 1010), (Rows{1, 0}));
  for (uint32_t now = 2000; now < 20000; now += 500) order->Use(1, now);
  EXPECT_EQ(Sorted(*order, {0, 1}, 20000), (Rows{0, 1}));
}

TEST(CacheStrategy, IsRightWhenTheClockWraps) {
  for (const char* strategy : {"LRU", "LFU"}) {
    const auto order = Create(strategy, 2);
    order->Start(0, ~uint32_t{0} - 1);
    order->Start(1, 1);
    EXPECT_EQ(Sorted(*order, {1, 0}, 2), (Rows{0, 1})) << strategy;
  }
}

TEST(CacheStrategy, MovesARowWithItsPast) {
  for (const char* strategy : {"LRU", "LFU"}) {
    const auto order = Create(strategy, 3);
    order->Start(0, 5);
    order->Start(1, 1);
    order->Start(2, 2);
    order->Take(*order, 0, 2);
    EXPECT_EQ(Sorted(*order, {2, 1}, 5), (Rows{1, 2})) << strategy;
    const auto other = Create(strategy, 2);
    other->Start(0, 2);
    other->Take(*order, 2, 1);
    EXPECT_EQ(Sorted(*other, {1, 0}, 5), (Rows{0, 1})) << strategy;
  }
}

TEST(CacheStrategy, NamesTheStrategiesThereAre) {
  std::unique_ptr<CacheStrategy> order;
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument,
                        "must be one of ('LRU', 'LFU'). Received: cache_strategy='FIFO'",
                        CacheStrategy::Create("FIFO", &order)));
}

}  // namespace keras_sparse::cache_strategy_test
