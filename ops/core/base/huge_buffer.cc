#include "ops/core/base/huge_buffer.h"

#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

namespace keras_sparse {
namespace {

int64_t PageBytes() {
  static const int64_t kBytes = sysconf(_SC_PAGESIZE);
  return kBytes;
}

// Memory and swap.
int64_t MachineBytes() {
  struct sysinfo info;
  if (sysinfo(&info) != 0) return std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(info.totalram + info.totalswap) * info.mem_unit;
}

int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

Status HugeBuffer::Allocate(int64_t bytes, HugeBuffer* buffer) {
  // Otherwise the mapping would succeed, and the process would be killed when the memory is used.
  static const int64_t kMachineBytes = MachineBytes();
  if (bytes > kMachineBytes) {
    return ResourceExhausted("a table's memory must fit the machine, which has " +
                             std::to_string(kMachineBytes) +
                             " bytes. Received: " + std::to_string(bytes) + " bytes");
  }
  if (bytes == 0) {  // mmap rejects 0 bytes
    *buffer = HugeBuffer();
    return Status::Ok();
  }
  const bool huge = bytes >= kHugePageBytes;
  const int64_t usable = RoundUp(bytes, PageBytes());
  // One huge page more, so that an aligned start is inside. Untouched memory costs nothing.
  const int64_t mapping_bytes = usable + (huge ? kHugePageBytes : 0);
  void* mapping = mmap(nullptr, static_cast<size_t>(mapping_bytes), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    return ResourceExhausted("a table's memory must fit the machine. Received: mmap of " +
                             std::to_string(mapping_bytes) +
                             " bytes failed: " + std::strerror(errno));
  }
  HugeBuffer result;
  result.mapping_ = static_cast<char*>(mapping);
  result.mapping_bytes_ = mapping_bytes;
  result.data_ = result.mapping_;
  result.bytes_ = usable;
  if (huge) {
    const auto address = reinterpret_cast<intptr_t>(mapping);
    result.data_ += RoundUp(address, kHugePageBytes) - address;
    // If this fails (a kernel without huge pages), plain pages remain: slower, not wrong.
    (void)madvise(result.data_, static_cast<size_t>(usable), MADV_HUGEPAGE);
  }
  *buffer = std::move(result);
  return Status::Ok();
}

HugeBuffer::~HugeBuffer() {
  if (mapping_ != nullptr) munmap(mapping_, static_cast<size_t>(mapping_bytes_));
}

HugeBuffer::HugeBuffer(HugeBuffer&& other) noexcept { *this = std::move(other); }

HugeBuffer& HugeBuffer::operator=(HugeBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapping_bytes_, other.mapping_bytes_);
  return *this;
}

void HugeBuffer::Discard(int64_t begin, int64_t end) {
  const int64_t unit = bytes_ >= kHugePageBytes ? kHugePageBytes : PageBytes();
  const int64_t first = RoundUp(begin, unit);
  const int64_t last = end >= bytes_ ? bytes_ : end / unit * unit;
  if (first < last) {
    (void)madvise(data_ + first, static_cast<size_t>(last - first), MADV_DONTNEED);
  }
}

}  // namespace keras_sparse
