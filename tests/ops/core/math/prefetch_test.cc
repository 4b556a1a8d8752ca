#include "ops/core/math/prefetch.h"

#include <algorithm>
#include <array>

#include "tests/ops/core/support/testing.h"

namespace keras_sparse::prefetch_test {

// The lines that some row touches, of rows that lie side by side.
int64_t MostLines(int64_t row_bytes, int64_t stride) {
  int64_t most = 0;
  for (int64_t i = 0; i < kCacheLineBytes; ++i) {
    const int64_t begin = i * stride;
    const int64_t last_line = (begin + row_bytes - 1) / kCacheLineBytes;
    most = std::max(most, last_line - begin / kCacheLineBytes + 1);
  }
  return most;
}

TEST(Prefetch, AsksForTheLinesThatARowCanTouchAndNoMore) {
  for (int64_t stride = 4; stride <= 1100; stride += 4) {
    for (int64_t row_bytes = 4; row_bytes <= stride; row_bytes += 4) {
      const int64_t bytes = BytesToPrefetch(row_bytes, stride);
      const int64_t lines = (bytes + kCacheLineBytes - 1) / kCacheLineBytes;
      ASSERT_EQ(lines, MostLines(row_bytes, stride)) << row_bytes << " of " << stride;
    }
  }
}

TEST(Prefetch, BringsFewLinesIntoTheFirstLevelUnlessItIsNarrow) {
  EXPECT_EQ(LevelOf(256) == CacheLevel::kSecond, HasNarrowFirstLevel());
  EXPECT_EQ(LevelOf(257), CacheLevel::kSecond);
}

TEST(Prefetch, KeepsTheRowsOfAnUpdateAheadOfTheirUseAndWithinABlock) {
  for (int64_t bytes = 8; bytes <= 20000; bytes += 4) {
    for (const bool is_narrow : {false, true}) {
      const UpdatePrefetch prefetch = UpdatePrefetchOf(bytes, is_narrow);
      ASSERT_EQ(prefetch.level == CacheLevel::kSecond, is_narrow) << bytes;
      ASSERT_GE(prefetch.rows_at_once, 2) << bytes;
      ASSERT_GE(prefetch.rows_ahead, prefetch.rows_at_once) << bytes;
      ASSERT_LE(prefetch.rows_ahead, kBlockRows) << bytes;
    }
  }
}

TEST(Prefetch, TakesRowsOfAnyWidthAndNull) {
  std::vector<float> memory(1024);
  const std::array<float*, 3> rows = {memory.data(), nullptr, memory.data() + 512};
  for (const int64_t bytes : {int64_t{4}, int64_t{64}, int64_t{776}, int64_t{1} << 40}) {
    for (const CacheLevel level : {CacheLevel::kFirst, CacheLevel::kSecond}) {
      for (int64_t n = 0; n <= 3; ++n) PrefetchRows(rows.data(), n, bytes, level);
    }
  }
}

}  // namespace keras_sparse::prefetch_test
