#include "ops/core/record/record_slabs.h"

#include <algorithm>

#include "ops/core/index/hash_index.h"

namespace keras_sparse {

Status RecordSlabs::Allocate(uint32_t* row) {
  if (!free_.empty()) {
    *row = free_.back();
    free_.pop_back();
    return Status::Ok();
  }
  if (end_ == HashIndex::kNoRow) {
    return ResourceExhausted("a key shard holds at most 4294967295 rows");
  }
  if (end_ == capacity_) {
    const int64_t rows = NextChunkRows();
    char* chunk = nullptr;
    KERAS_SPARSE_RETURN_IF_ERROR(arena_->Allocate(rows * record_bytes_, &chunk));
    chunks_.push_back(chunk);
    capacity_ += rows;
  }
  *row = static_cast<uint32_t>(end_++);
  return Status::Ok();
}

void RecordSlabs::CloseOverflow() {
  const auto beyond = [this](uint32_t row) { return row >= limit_; };
  free_.erase(std::remove_if(free_.begin(), free_.end(), beyond), free_.end());
}

void RecordSlabs::DropOverflow() {
  CloseOverflow();
  while (capacity_ > limit_) {
    chunks_.pop_back();
    capacity_ -= NextChunkRows();
  }
  end_ = std::min(end_, limit_);
}

}  // namespace keras_sparse
