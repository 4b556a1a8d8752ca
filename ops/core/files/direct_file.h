// DirectFile: a file that is read and written in whole blocks, as direct I/O requires.
#ifndef KERAS_SPARSE_OPS_CORE_FILES_DIRECT_FILE_H_
#define KERAS_SPARSE_OPS_CORE_FILES_DIRECT_FILE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ops/core/files/file_system.h"

namespace keras_sparse {

// A read loads the blocks that contain its bytes. A write rewrites the blocks that it changes; the
// first one may contain earlier bytes. So a file is written in order, and zeros follow its last
// byte up to the end of the block.
//
// Thread safety: the same as File's. A read may overlap a write of other bytes of its block.
class DirectFile : public File {
 public:
  // The disk's block size or a multiple: offsets, sizes and addresses in memory are multiples of
  // it.
  static constexpr int64_t kBlockBytes = 4096;

  // `blocks` must be empty, and accepts only whole blocks.
  explicit DirectFile(std::unique_ptr<File> blocks) : blocks_(std::move(blocks)) {}

  // Keeps earlier bytes before `offset`; bytes after it may be lost.
  // REQUIRES: all bytes before `offset` have been written
  Status Write(int64_t offset, const char* data, int64_t bytes) override;
  Status Read(int64_t offset, int64_t bytes, char* to) const override;

 private:
  std::unique_ptr<File> blocks_;
  // The last bytes written to a block that is not full, and their offset.
  std::vector<char> tail_;
  int64_t tail_begin_ = 0;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_FILES_DIRECT_FILE_H_
