#include "ops/core/table/output_bytes.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace keras_sparse {
namespace output_bytes_test {

TEST(OutputTraffic, TellsWhatAllLookupsHaveWrittenSinceATablesLastOne) {
  OutputTraffic users;
  OutputTraffic items;
  EXPECT_EQ(users.Since(OutputTraffic::Add(100)), 100);
  EXPECT_EQ(items.Since(OutputTraffic::Add(20)), 120);  // since it was made
  EXPECT_EQ(users.Since(OutputTraffic::Add(100)), 120);
  EXPECT_EQ(items.Since(OutputTraffic::Add(20)), 120);
  EXPECT_EQ(items.Since(OutputTraffic::Add(20)), 20);
  OutputTraffic made_later;
  EXPECT_EQ(made_later.Since(OutputTraffic::Add(3)), 3);
}

TEST(OutputTraffic, CountsNothingTwiceWhereLookupsOvertakeEachOther) {
  OutputTraffic table;
  const int64_t first = OutputTraffic::Add(10);
  const int64_t second = OutputTraffic::Add(5);
  EXPECT_EQ(table.Since(second), 15);
  EXPECT_EQ(table.Since(first), 0);
  EXPECT_EQ(table.Since(OutputTraffic::Add(1)), 1);
}

}  // namespace output_bytes_test
}  // namespace keras_sparse
