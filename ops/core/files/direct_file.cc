#include "ops/core/files/direct_file.h"

#include <cstdlib>
#include <cstring>

namespace keras_sparse {
namespace {

int64_t BlocksBegin(int64_t offset) {
  return offset / DirectFile::kBlockBytes * DirectFile::kBlockBytes;
}
int64_t BlocksEnd(int64_t offset) { return BlocksBegin(offset + DirectFile::kBlockBytes - 1); }

// Memory of whole blocks, which a thread reuses for all calls.
class Blocks {
 public:
  // Returns null if there is no memory.
  char* OfSize(int64_t bytes) {
    if (bytes > bytes_) {
      std::free(data_);
      data_ = static_cast<char*>(
          std::aligned_alloc(DirectFile::kBlockBytes, static_cast<size_t>(bytes)));
      bytes_ = data_ == nullptr ? 0 : bytes;
    }
    return data_;
  }
  ~Blocks() { std::free(data_); }

 private:
  char* data_ = nullptr;
  int64_t bytes_ = 0;
};

thread_local Blocks thread_blocks;

Status NoMemory(int64_t bytes) {
  return ResourceExhausted("direct I/O needs " + std::to_string(bytes) +
                           " bytes of memory, and there are none left");
}

}  // namespace

Status DirectFile::Write(int64_t offset, const char* data, int64_t bytes) {
  if (bytes == 0) return Status::Ok();
  const int64_t begin = BlocksBegin(offset);
  const int64_t end = offset + bytes;
  char* blocks = thread_blocks.OfSize(BlocksEnd(end) - begin);
  if (blocks == nullptr) return NoMemory(BlocksEnd(end) - begin);
  const int64_t before = offset - begin;
  if (before == 0) {
    // The write starts at the beginning of its block.
  } else if (begin == tail_begin_ && before <= static_cast<int64_t>(tail_.size())) {
    std::memcpy(blocks, tail_.data(), static_cast<size_t>(before));
  } else {
    KERAS_SPARSE_RETURN_IF_ERROR(blocks_->Read(begin, kBlockBytes, blocks));
  }
  std::memcpy(blocks + before, data, static_cast<size_t>(bytes));
  std::memset(blocks + (end - begin), 0, static_cast<size_t>(BlocksEnd(end) - end));
  KERAS_SPARSE_RETURN_IF_ERROR(blocks_->Write(begin, blocks, BlocksEnd(end) - begin));
  tail_begin_ = BlocksBegin(end);
  tail_.assign(blocks + (tail_begin_ - begin), blocks + (end - begin));
  return Status::Ok();
}

Status DirectFile::Read(int64_t offset, int64_t bytes, char* to) const {
  if (bytes == 0) return Status::Ok();
  const int64_t begin = BlocksBegin(offset);
  const int64_t size = BlocksEnd(offset + bytes) - begin;
  char* blocks = thread_blocks.OfSize(size);
  if (blocks == nullptr) return NoMemory(size);
  KERAS_SPARSE_RETURN_IF_ERROR(blocks_->Read(begin, size, blocks));
  std::memcpy(to, blocks + (offset - begin), static_cast<size_t>(bytes));
  return Status::Ok();
}

}  // namespace keras_sparse
