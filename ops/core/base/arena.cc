#include "ops/core/base/arena.h"

#include <algorithm>
#include <utility>

#include "ops/core/base/cache_line.h"

namespace keras_sparse {
namespace {

constexpr int64_t kSmallestSlab = int64_t{64} << 10;
constexpr int64_t kLargestSlab = int64_t{64} << 20;

}  // namespace

Status Arena::Allocate(int64_t bytes, char** piece) {
  const int64_t rounded = (bytes + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
  const MutexLock lock(mutex_);
  if (slabs_.empty() || used_of_last_slab_ + rounded > slabs_.back().bytes()) {
    int64_t slab_bytes = std::clamp(handed_out_ / 8, kSmallestSlab, kLargestSlab);
    if (slab_bytes >= kHugePageBytes) slab_bytes = slab_bytes / kHugePageBytes * kHugePageBytes;
    HugeBuffer slab;
    KERAS_SPARSE_RETURN_IF_ERROR(HugeBuffer::Allocate(std::max(slab_bytes, rounded), &slab));
    slabs_.push_back(std::move(slab));
    used_of_last_slab_ = 0;
  }
  *piece = slabs_.back().data() + used_of_last_slab_;
  used_of_last_slab_ += rounded;
  handed_out_ += rounded;
  return Status::Ok();
}

int64_t Arena::bytes() const {
  const MutexLock lock(mutex_);
  return handed_out_;
}

void Arena::Clear() {
  const MutexLock lock(mutex_);
  slabs_.clear();
  used_of_last_slab_ = 0;
  handed_out_ = 0;
}

}  // namespace keras_sparse
