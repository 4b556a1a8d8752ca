#include <algorithm>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "ops/core/device/device_code.h"
#include "ops/core/device/device_requests.h"
#include "ops/core/record/hbm_records.h"

namespace keras_sparse {
namespace {

constexpr int64_t kSectorBytes = 32;
// The first slab of a table with few rows.
constexpr int64_t kFirstSlabBytes = int64_t{64} << 10;
// Bytes of records copied between the two memories at a time.
constexpr int64_t kPieceBytes = int64_t{64} << 20;

// Returns the exponent of the largest power of two of rows that fit `bytes`; at least one row.
uint32_t ShiftOf(int64_t stride, int64_t bytes, uint32_t most) {
  uint32_t shift = 0;
  while (shift < most && stride << (shift + 1) <= bytes) ++shift;
  return shift;
}

SlabSizes SizesOf(int64_t stride, int64_t block_bytes) {
  constexpr uint32_t kMostShift = 31;
  return {ShiftOf(stride, std::min(kFirstSlabBytes, block_bytes), SlabSizes::kMostFirstShift),
          ShiftOf(stride, block_bytes, kMostShift)};
}

// Rows of a view, by their numbers or starting with the first one.
struct SomeRows {
  const uint32_t* rows;  // may be null
  int64_t first;

  __device__ uint32_t operator[](int64_t i) const {
    return rows == nullptr ? static_cast<uint32_t>(first + i) : rows[i];
  }
};

// One lane per word, so that neighbouring lanes access neighbouring words.
__global__ void GatherKernel(RecordsView view, SomeRows rows, int64_t n, int64_t words,
                             uint32_t* packed) {
  for (int64_t i = cuda_impl::LaneOfKernel(); i < n * words; i += cuda_impl::LanesOfKernel()) {
    const auto* record = reinterpret_cast<const uint32_t*>(view.Record(rows[i / words]));
    packed[i] = record[i % words];
  }
}

__global__ void ScatterKernel(RecordsView view, SomeRows rows, int64_t n, int64_t words,
                              const uint32_t* packed) {
  for (int64_t i = cuda_impl::LaneOfKernel(); i < n * words; i += cuda_impl::LanesOfKernel()) {
    auto* record = reinterpret_cast<uint32_t*>(view.Record(rows[i / words]));
    record[i % words] = packed[i];
  }
}

template <typename Kernel, typename Word>
void LaunchCopy(Kernel kernel, const Device& device, const HbmRecords& records,
                const SomeRows& rows, int64_t n, Word* packed) {
  const int64_t words = records.record_bytes() / RecordLayout::kWordBytes;
  cuda_impl::Launch(kernel, cuda_impl::BlocksFor(device, n * words), cuda_impl::kBlock,
                    device.stream(), records.view(), rows, n, words, packed);
}

uint32_t* Words(char* packed) { return reinterpret_cast<uint32_t*>(packed); }
const uint32_t* Words(const char* packed) { return reinterpret_cast<const uint32_t*>(packed); }

}  // namespace

int64_t HbmRecords::StrideOf(int64_t record_bytes) {
  for (int64_t bytes = 4; bytes < kSectorBytes; bytes *= 2) {
    if (record_bytes <= bytes) return bytes;
  }
  return (record_bytes + kSectorBytes - 1) / kSectorBytes * kSectorBytes;
}

HbmRecords::HbmRecords(Device* device, int64_t record_bytes, int64_t most_rows, int64_t block_bytes)
    : device_(device),
      record_bytes_(record_bytes),
      most_rows_(most_rows),
      block_bytes_(block_bytes) {
  view_.stride = StrideOf(record_bytes);
  view_.sizes = SizesOf(view_.stride, block_bytes);
}

Status HbmRecords::Allocate(Device* device, int64_t num_rows, const RecordLayout& layout,
                            HbmRecords* records) {
  HbmRecords made(device, layout.record_bytes(), num_rows);
  KERAS_SPARSE_RETURN_IF_ERROR(made.Grow(num_rows));
  *records = std::move(made);
  return Status::Ok();
}

Status HbmRecords::Grow(int64_t num_rows) {
  if (num_rows <= view_.num_rows) return Status::Ok();
  if (num_rows > kMostHbmRows || num_rows > std::numeric_limits<int64_t>::max() / view_.stride) {
    return InvalidArgument(
        "a table in a GPU's memory holds at most " + std::to_string(kMostHbmRows) +
        " rows on a rank; use more ranks, or keep it in the CPU's memory. "
        "Received: " +
        std::to_string(num_rows) + " rows of " + std::to_string(record_bytes_) + " bytes");
  }
  int64_t rows = view_.num_rows;
  std::vector<char*> slabs = slabs_;
  std::vector<DeviceArray<char>> blocks;
  while (rows < num_rows) {
    KERAS_SPARSE_RETURN_IF_ERROR(AddBlock(num_rows, &rows, &slabs, &blocks));
  }
  DeviceArray<char*> slabs_on_device;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<char*>::Copy(device_, slabs, &slabs_on_device));
  // The old array is freed after all work enqueued on the device.
  slabs_on_device_ = std::move(slabs_on_device);
  slabs_ = std::move(slabs);
  blocks_.insert(blocks_.end(), std::make_move_iterator(blocks.begin()),
                 std::make_move_iterator(blocks.end()));
  view_.slabs = slabs_on_device_.data();
  view_.num_rows = rows;
  return Status::Ok();
}

Status HbmRecords::AddBlock(int64_t num_rows, int64_t* rows, std::vector<char*>* slabs,
                            std::vector<DeviceArray<char>>* blocks) const {
  std::vector<int64_t> begins;
  int64_t end = 0;
  while (*rows + end < num_rows) {
    const auto slab = static_cast<uint32_t>(slabs->size() + begins.size());
    const int64_t slab_rows =
        std::min(int64_t{1} << view_.sizes.ShiftOfSlab(slab), most_rows_ - *rows - end);
    if (!begins.empty() && (end + slab_rows) * view_.stride > block_bytes_) break;
    begins.push_back(end * view_.stride);
    end += slab_rows;
  }
  DeviceArray<char> block;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<char>::Allocate(device_, end * view_.stride, &block));
  for (const int64_t begin : begins) slabs->push_back(block.data() + begin);
  blocks->push_back(std::move(block));
  *rows += end;
  return Status::Ok();
}

int64_t HbmRecords::bytes() const {
  int64_t bytes = slabs_on_device_.bytes();
  for (const DeviceArray<char>& block : blocks_) bytes += block.bytes();
  return bytes;
}

void HbmRecords::Gather(const uint32_t* rows, int64_t n, char* packed) const {
  LaunchCopy(GatherKernel, *device_, *this, {rows, 0}, n, Words(packed));
}

void HbmRecords::Scatter(const uint32_t* rows, int64_t n, const char* packed) {
  LaunchCopy(ScatterKernel, *device_, *this, {rows, 0}, n, Words(packed));
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
    const char* there = packed;
    LaunchCopy(ScatterKernel, *device_, *this, {nullptr, first + done}, rows, Words(there));
    return Status::Ok();
  });
}

Status HbmRecords::Read(int64_t first, int64_t n, void* records) const {
  return ForEachPiece(n, [&](int64_t done, int64_t rows, char* packed) {
    LaunchCopy(GatherKernel, *device_, *this, {nullptr, first + done}, rows, Words(packed));
    char* to = static_cast<char*>(records) + done * record_bytes_;
    return device_->CopyToHost(packed, rows * record_bytes_, to);
  });
}

}  // namespace keras_sparse
