#include "ops/core/base/cache_size.h"

#include <fstream>

namespace keras_sparse {
namespace {

int64_t ReadThirdLevelCacheBytes() {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size");  // such as "32768K"
  int64_t size = 0;
  char unit = 0;
  if (!(file >> size >> unit)) return 0;
  return unit == 'K' ? size << 10 : unit == 'M' ? size << 20 : 0;
}

}  // namespace

int64_t ThirdLevelCacheBytes() {
  static const int64_t kBytes = ReadThirdLevelCacheBytes();
  return kBytes;
}

}  // namespace keras_sparse
