#include "ops/core/stores/pmem/pmem_extent.h"

#include <libpmem.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace keras_sparse {
namespace {

constexpr char kExtentMagic[] = "KSPMEMEX";
constexpr uint32_t kExtentVersion = 1;

Status PmemFailure(const std::string& what, const std::string& path, int error) {
  const bool is_full = error == ENOSPC || error == EDQUOT || error == EFBIG || error == ENOMEM;
  const StatusCode code = is_full        ? StatusCode::kResourceExhausted
                          : error == EIO ? StatusCode::kDataLoss
                                         : StatusCode::kFailedPrecondition;
  return Status(code, "could not " + what + " '" + path + "': " + std::strerror(error));
}

}  // namespace

Status PmemExtent::Create(FileSystem* file_system, const std::string& path, uint64_t number,
                          const EntryLayout& layout, int64_t num_entries,
                          std::unique_ptr<PmemExtent>* extent) {
  std::unique_ptr<PmemExtent> made(new PmemExtent(file_system, path, layout));
  std::unique_ptr<File> file;
  KERAS_SPARSE_RETURN_IF_ERROR(file_system->CreateFile(path, &file));
  made->has_file_ = true;
  KERAS_SPARSE_RETURN_IF_ERROR(made->Map(layout.offset(num_entries)));
  const auto header = MakeFileHeader(kExtentMagic, kExtentVersion, number, layout);
  made->Copy(0, header.data(), header.size());
  *extent = std::move(made);
  return Status::Ok();
}

PmemExtent::~PmemExtent() {
  if (data_ != nullptr) pmem_unmap(data_, mapped_bytes_);
  // A failure leaves one file too many, which the next process removes.
  if (has_file_) (void)file_system_->RemoveFile(path_);
}

Status PmemExtent::Map(int64_t bytes) {
  int is_pmem = 0;
  // Without PMEM_FILE_SPARSE the blocks are reserved.
  void* data = pmem_map_file(path_.c_str(), static_cast<size_t>(bytes), PMEM_FILE_CREATE, 0644,
                             &mapped_bytes_, &is_pmem);
  if (data == nullptr) {
    const int error = errno;
    return PmemFailure("reserve and map " + std::to_string(bytes) + " bytes of", path_, error);
  }
  data_ = static_cast<char*>(data);
  is_pmem_ = is_pmem != 0;
  return Status::Ok();
}

void PmemExtent::Copy(int64_t offset, const char* bytes, size_t num_bytes) {
  if (is_pmem_) {
    pmem_memcpy_nodrain(data_ + offset, bytes, num_bytes);
  } else {
    std::memcpy(data_ + offset, bytes, num_bytes);
  }
  changed_begin_ = std::min(changed_begin_, offset);
  changed_end_ = std::max(changed_end_, offset + static_cast<int64_t>(num_bytes));
}

Status PmemExtent::Sync() {
  if (changed_begin_ >= changed_end_) return Status::Ok();
  if (is_pmem_) {
    pmem_drain();
  } else if (pmem_msync(data_ + changed_begin_,
                        static_cast<size_t>(changed_end_ - changed_begin_)) != 0) {
    const int error = errno;
    return PmemFailure("write at byte " + std::to_string(changed_begin_) + " of", path_, error);
  }
  changed_begin_ = INT64_MAX;
  changed_end_ = 0;
  return Status::Ok();
}

}  // namespace keras_sparse
