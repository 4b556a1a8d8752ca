#include "ops/core/table/output_bytes.h"

#include "tests/ops/core/support/testing.h"

namespace keras_sparse::output_bytes_test {

TEST(OutputBytes, TellsWhatAllLookupsHaveWrittenSinceATablesLastOne) {
  OutputBytes users;
  OutputBytes items;
  EXPECT_EQ(users.Since(OutputBytes::Add(100)), 100);
  EXPECT_EQ(items.Since(OutputBytes::Add(20)), 120);  // since it was made
  EXPECT_EQ(users.Since(OutputBytes::Add(100)), 120);
  EXPECT_EQ(items.Since(OutputBytes::Add(20)), 120);
  EXPECT_EQ(items.Since(OutputBytes::Add(20)), 20);
  OutputBytes made_later;
  EXPECT_EQ(made_later.Since(OutputBytes::Add(3)), 3);
}

TEST(OutputBytes, CountsNothingTwiceWhereLookupsOvertakeEachOther) {
  OutputBytes table;
  const int64_t first = OutputBytes::Add(10);
  const int64_t second = OutputBytes::Add(5);
  EXPECT_EQ(table.Since(second), 15);
  EXPECT_EQ(table.Since(first), 0);
  EXPECT_EQ(table.Since(OutputBytes::Add(1)), 1);
}

}  // namespace keras_sparse::output_bytes_test
