#include <algorithm>
#include <cstring>

#include "ops/core/stores/hbm/hbm_transfer.h"

namespace keras_sparse {
namespace {

// Copying a piece of this size takes longer than starting the copy.
constexpr int64_t kPieceBytes = int64_t{1} << 20;
constexpr int64_t kRowBytes = sizeof(uint32_t);
constexpr int64_t kKeyBytes = sizeof(int64_t);

}  // namespace

Status HbmTransfer::Open(Device* device, int64_t record_bytes,
                         std::unique_ptr<HbmTransfer>* transfer) {
  const int64_t bytes = std::max(kPieceBytes, record_bytes + kRowBytes);
  std::unique_ptr<HbmTransfer> made(new HbmTransfer(device, static_cast<size_t>(bytes)));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<char>::Allocate(device, bytes, &made->device_piece_));
  *transfer = std::move(made);
  return Status::Ok();
}

template <typename Body>
Status HbmTransfer::ForEachPiece(int64_t n, int64_t bytes, const Body& body) {
  const int64_t most = device_piece_.bytes() / (bytes + kRowBytes);
  char* const wide = device_piece_.data();
  for (int64_t done = 0; done < n; done += most) {
    auto* rows = reinterpret_cast<uint32_t*>(wide + most * bytes);
    KERAS_SPARSE_RETURN_IF_ERROR(body(Piece{done, std::min(most, n - done), wide, rows}));
  }
  return Status::Ok();
}

Status HbmTransfer::Read(const HbmRecords& records, const uint32_t* rows, int64_t n,
                         const std::function<char*(int64_t)>& place) {
  const MutexLock lock(mutex_);
  const int64_t bytes = records.record_bytes();
  return ForEachPiece(n, bytes, [&](const Piece& piece) {
    KERAS_SPARSE_RETURN_IF_ERROR(
        device_->CopyToDevice(rows + piece.first, piece.n * kRowBytes, piece.rows));
    records.Gather(piece.rows, piece.n, piece.wide);
    KERAS_SPARSE_RETURN_IF_ERROR(
        device_->CopyToHost(piece.wide, piece.n * bytes, host_piece_.data()));
    for (int64_t i = 0; i < piece.n; ++i) {
      std::memcpy(place(piece.first + i), host_piece_.data() + i * bytes,
                  static_cast<size_t>(bytes));
    }
    return Status::Ok();
  });
}

Status HbmTransfer::Write(const uint32_t* rows, int64_t n,
                          const std::function<const char*(int64_t)>& place, HbmRecords* records) {
  const MutexLock lock(mutex_);
  const int64_t bytes = records->record_bytes();
  return ForEachPiece(n, bytes, [&](const Piece& piece) {
    for (int64_t i = 0; i < piece.n; ++i) {
      std::memcpy(host_piece_.data() + i * bytes, place(piece.first + i),
                  static_cast<size_t>(bytes));
    }
    KERAS_SPARSE_RETURN_IF_ERROR(
        device_->CopyToDevice(rows + piece.first, piece.n * kRowBytes, piece.rows));
    KERAS_SPARSE_RETURN_IF_ERROR(
        device_->CopyToDevice(host_piece_.data(), piece.n * bytes, piece.wide));
    records->Scatter(piece.rows, piece.n, piece.wide);
    return Status::Ok();
  });
}

Status HbmTransfer::Send(const int64_t* keys, const uint32_t* rows, int64_t n, const Use& use) {
  const MutexLock lock(mutex_);
  return ForEachPiece(n, kKeyBytes, [&](const Piece& piece) {
    auto* keys_there = reinterpret_cast<int64_t*>(piece.wide);
    if (keys != nullptr) {
      KERAS_SPARSE_RETURN_IF_ERROR(
          device_->CopyToDevice(keys + piece.first, piece.n * kKeyBytes, keys_there));
    }
    KERAS_SPARSE_RETURN_IF_ERROR(
        device_->CopyToDevice(rows + piece.first, piece.n * kRowBytes, piece.rows));
    return use(keys_there, piece.rows, piece.n);
  });
}

Status HbmTransfer::Find(const HbmIndex& index, const int64_t* keys, int64_t n, uint32_t* rows) {
  const MutexLock lock(mutex_);
  return ForEachPiece(n, kKeyBytes, [&](const Piece& piece) {
    auto* keys_there = reinterpret_cast<int64_t*>(piece.wide);
    KERAS_SPARSE_RETURN_IF_ERROR(
        device_->CopyToDevice(keys + piece.first, piece.n * kKeyBytes, keys_there));
    index.Find(keys_there, piece.n, piece.rows);
    return device_->CopyToHost(piece.rows, piece.n * kRowBytes, rows + piece.first);
  });
}

Status HbmTransfer::Erase(const int64_t* keys, int64_t n, uint32_t* rows, HbmIndex* index) {
  const MutexLock lock(mutex_);
  return ForEachPiece(n, kKeyBytes, [&](const Piece& piece) {
    auto* keys_there = reinterpret_cast<int64_t*>(piece.wide);
    KERAS_SPARSE_RETURN_IF_ERROR(
        device_->CopyToDevice(keys + piece.first, piece.n * kKeyBytes, keys_there));
    KERAS_SPARSE_RETURN_IF_ERROR(index->Erase(keys_there, piece.n, piece.rows));
    return device_->CopyToHost(piece.rows, piece.n * kRowBytes, rows + piece.first);
  });
}

}  // namespace keras_sparse
