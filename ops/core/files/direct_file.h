// A file that is read and written in whole blocks, as direct I/O needs it.
#ifndef KERAS_SPARSE_OPS_CORE_FILES_DIRECT_FILE_H_
#define KERAS_SPARSE_OPS_CORE_FILES_DIRECT_FILE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ops/core/files/file_system.h"

namespace keras_sparse {

// A read takes the blocks that its bytes lie in; a write makes those that it changes anew, of which
// the first may have bytes from before. So a file is written in order, and zeros follow its last
// byte up to the end of the block.
//
// Thread safety: as File. A read may overlap a write of other bytes of its block.
class DirectFile : public File {
 public:
  // As the disk has them, or a multiple: offsets, sizes and addresses in memory are multiples.
  static constexpr int64_t kBlockBytes = 4096;

  // `blocks` is empty, and takes whole blocks alone.
  explicit DirectFile(std::unique_ptr<File> blocks) : blocks_(std::move(blocks)) {}

  // Of what was written before, the bytes up to `offset` stay; those after it may be gone.
  // REQUIRES: all bytes before `offset` have been written
  Status Write(int64_t offset, const char* data, int64_t bytes) override;
  Status Read(int64_t offset, int64_t bytes, char* to) const override;

 private:
  std::unique_ptr<File> blocks_;
  // What was written last of a block that is not full, and where that begins.
  std::vector<char> tail_;
  int64_t tail_begin_ = 0;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_FILES_DIRECT_FILE_H_
