#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "ops/core/device/device_code.h"
#include "ops/core/device/device_requests.h"
#include "ops/core/record/hbm_records.h"

namespace keras_sparse {
namespace {

constexpr int64_t kSectorBytes = 32;
// Records on their way between the two memories at a time.
constexpr int64_t kPieceBytes = int64_t{64} << 20;

int64_t StrideOf(int64_t record_bytes) {
  for (int64_t bytes = 4; bytes < kSectorBytes; bytes *= 2) {
    if (record_bytes <= bytes) return bytes;
  }
  return (record_bytes + kSectorBytes - 1) / kSectorBytes * kSectorBytes;
}

// A lane a word, so that neighbours read and write neighbours.
__global__ void CopyKernel(bool write, RecordsView view, int64_t first, int64_t n, int64_t words,
                           uint32_t* records) {
  for (int64_t i = cuda_impl::LaneOfKernel(); i < n * words; i += cuda_impl::LanesOfKernel()) {
    auto* word =
        reinterpret_cast<uint32_t*>(view.Record(static_cast<uint32_t>(first + i / words))) +
        i % words;
    if (write) {
      *word = records[i];
    } else {
      records[i] = *word;
    }
  }
}

}  // namespace

Status HbmRecords::Allocate(Device* device, int64_t num_rows, const RecordLayout& layout,
                            HbmRecords* records) {
  const int64_t stride = StrideOf(layout.record_bytes());
  if (num_rows >= int64_t{kNoHbmRow} || num_rows > std::numeric_limits<int64_t>::max() / stride) {
    return InvalidArgument(
        "a table in a GPU's memory holds fewer than 4294967295 rows on a rank; use more ranks, or "
        "keep it in the CPU's memory. Received: " +
        std::to_string(num_rows) + " rows of " + std::to_string(layout.record_bytes()) + " bytes");
  }
  HbmRecords made;
  made.device_ = device;
  made.record_bytes_ = layout.record_bytes();
  KERAS_SPARSE_RETURN_IF_ERROR(
      DeviceArray<char>::Allocate(device, num_rows * stride, &made.memory_));
  made.view_ = {made.memory_.data(), stride, num_rows};
  *records = std::move(made);
  return Status::Ok();
}

void HbmRecords::Copy(bool write, int64_t first, int64_t n, char* records) const {
  const int64_t words = record_bytes_ / RecordLayout::kWordBytes;
  cuda_impl::Launch(CopyKernel, cuda_impl::BlocksFor(*device_, n * words), cuda_impl::kBlock,
                    device_->stream(), write, view_, first, n, words,
                    reinterpret_cast<uint32_t*>(records));
}

template <typename Piece>
Status HbmRecords::ForEachPiece(int64_t n, const Piece& piece) const {
  const int64_t most = std::max<int64_t>(1, kPieceBytes / record_bytes_);
  DeviceArray<char> packed;
  KERAS_SPARSE_RETURN_IF_ERROR(
      DeviceArray<char>::Allocate(device_, std::min(most, n) * record_bytes_, &packed));
  for (int64_t done = 0; done < n; done += most) {
    KERAS_SPARSE_RETURN_IF_ERROR(piece(done, std::min(most, n - done), packed.data()));
  }
  return Status::Ok();
}

Status HbmRecords::Write(int64_t first, int64_t n, const void* records) {
  return ForEachPiece(n, [&](int64_t done, int64_t rows, char* packed) {
    const char* from = static_cast<const char*>(records) + done * record_bytes_;
    KERAS_SPARSE_RETURN_IF_ERROR(device_->CopyToDevice(from, rows * record_bytes_, packed));
    Copy(true, first + done, rows, packed);
    return Status::Ok();
  });
}

Status HbmRecords::Read(int64_t first, int64_t n, void* records) const {
  return ForEachPiece(n, [&](int64_t done, int64_t rows, char* packed) {
    Copy(false, first + done, rows, packed);
    char* to = static_cast<char*>(records) + done * record_bytes_;
    return device_->CopyToHost(packed, rows * record_bytes_, to);
  });
}

}  // namespace keras_sparse
