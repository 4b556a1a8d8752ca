#include "ops/core/row_storage.h"

#include "ops/core/hash_index.h"

namespace keras_sparse {

Status RowStorage::Allocate(uint32_t* row) {
  if (!free_.empty()) {
    *row = free_.back();
    free_.pop_back();
    return Status::Ok();
  }
  if (end_ == HashIndex::kNoRow) {
    return ResourceExhausted("a key shard holds at most 4294967295 rows");
  }
  if (end_ == capacity_) {
    const int64_t rows = int64_t{1} << (kFirstOctave - kChunkBits + (chunks_.size() >> kChunkBits));
    char* chunk = nullptr;
    KERAS_SPARSE_RETURN_IF_ERROR(arena_->Allocate(rows * record_bytes_, &chunk));
    chunks_.push_back(chunk);
    capacity_ += rows;
  }
  *row = static_cast<uint32_t>(end_++);
  return Status::Ok();
}

}  // namespace keras_sparse
