#include <algorithm>
#include <utility>

#include "ops/core/optimizer/deferred_rule.h"
#include "ops/core/optimizer/history_on_device.h"

namespace keras_sparse::cuda_impl {

template <typename T>
Status GrowingCopy<T>::Follow(const T* from, int64_t size, int64_t beginning, Device* device) {
  if (beginning != beginning_) size_ = 0;
  beginning_ = beginning;
  if (size > copy_.size()) {
    DeviceArray<T> larger;
    KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<T>::Allocate(device, 2 * size, &larger));
    copy_ = std::move(larger);
    size_ = 0;
  }
  if (size > size_) {
    const int64_t bytes = (size - size_) * static_cast<int64_t>(sizeof(T));
    KERAS_SPARSE_RETURN_IF_ERROR(device->CopyToDevice(from + size_, bytes, copy_.data() + size_));
  }
  size_ = size;
  return Status::Ok();
}

Status HistoryOnDevice::FollowLiveMoves(const MissedMoves::View& moves, Device* device) {
  const MissedMoves::Piece* end = moves.live + moves.num_live;
  if (std::equal(moves.live, end, sent_live_.begin(), sent_live_.end())) return Status::Ok();
  if (moves.num_live > live_.size()) {
    KERAS_SPARSE_RETURN_IF_ERROR(
        DeviceArray<MissedMoves::Piece>::Allocate(device, 2 * moves.num_live, &live_));
  }
  sent_live_.clear();
  const int64_t bytes = moves.num_live * static_cast<int64_t>(sizeof(MissedMoves::Piece));
  KERAS_SPARSE_RETURN_IF_ERROR(device->CopyToDevice(moves.live, bytes, live_.data()));
  sent_live_.assign(moves.live, end);
  return Status::Ok();
}

Status HistoryOnDevice::Follow(const UpdateRule& rule, Device* device) {
  const auto* deferred = dynamic_cast<const DeferredRule*>(&rule);
  if (deferred == nullptr || !rule.defers_moves()) return Status::Ok();
  HistoryView view = deferred->history_view();
  if (view.slot_decays != nullptr && slot_decays_.data() == nullptr) {
    const auto num_slots = static_cast<std::ptrdiff_t>(rule.layout().slots().size());
    KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<Powers>::Copy(
        device, {view.slot_decays, view.slot_decays + num_slots}, &slot_decays_));
  }
  KERAS_SPARSE_RETURN_IF_ERROR(
      log_keep_.Follow(view.log_keep.sums, view.log_keep.size, view.log_keep.forgotten, device));
  KERAS_SPARSE_RETURN_IF_ERROR(
      rates_.Follow(view.rates.sums, view.rates.size, view.rates.forgotten, device));
  KERAS_SPARSE_RETURN_IF_ERROR(
      frozen_.Follow(view.moves.frozen, view.moves.num_frozen, view.moves.forgotten, device));
  KERAS_SPARSE_RETURN_IF_ERROR(FollowLiveMoves(view.moves, device));
  view.slot_decays = slot_decays_.data();
  view.log_keep.sums = log_keep_.data();
  view.rates.sums = rates_.data();
  view.moves.frozen = frozen_.data();
  view.moves.live = live_.data();
  view_ = view;
  return Status::Ok();
}

}  // namespace keras_sparse::cuda_impl
