#include "ops/core/base/cache_size.h"

#include <fstream>

#include "tests/ops/core/support/testing.h"

namespace keras_sparse::cache_size_test {

TEST(ThirdLevelCacheBytes, IsZeroOrWhatACacheMayHave) {
  const bool told = std::ifstream("/sys/devices/system/cpu/cpu0/cache/index3/size").good();
  const int64_t bytes = ThirdLevelCacheBytes();
  if (!told) {
    EXPECT_EQ(bytes, 0);
    return;
  }
  EXPECT_GE(bytes, int64_t{1} << 18);
  EXPECT_LE(bytes, int64_t{1} << 34);
}

}  // namespace keras_sparse::cache_size_test
