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

Status HistoryOnDevice::SendLiveMoves(const DeferredUpdates::View& moves, Device* device) {
  const DeferredUpdates::Piece* end = moves.live + moves.num_live;
  if (std::equal(moves.live, end, sent_live_.begin(), sent_live_.end())) return Status::Ok();
  if (moves.num_live > live_.size()) {
    KERAS_SPARSE_RETURN_IF_ERROR(
        DeviceArray<DeferredUpdates::Piece>::Allocate(device, 2 * moves.num_live, &live_));
  }
  sent_live_.clear();
  const int64_t bytes = moves.num_live * static_cast<int64_t>(sizeof(DeferredUpdates::Piece));
  KERAS_SPARSE_RETURN_IF_ERROR(device->CopyToDevice(moves.live, bytes, live_.data()));
  sent_live_.assign(moves.live, end);
  return Status::Ok();
}

Status HistoryOnDevice::Send(const HistoryView& host, int64_t num_slots, Device* device) {
  if (slot_decays_.size() != num_slots) {
    KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<Powers>::Copy(
        device, {host.slot_decays, host.slot_decays + num_slots}, &slot_decays_));
  }
  KERAS_SPARSE_RETURN_IF_ERROR(
      log_keep_.Follow(host.log_keep.sums, host.log_keep.size, host.log_keep.forgotten, device));
  KERAS_SPARSE_RETURN_IF_ERROR(
      rates_.Follow(host.rates.sums, host.rates.size, host.rates.forgotten, device));
  KERAS_SPARSE_RETURN_IF_ERROR(
      frozen_.Follow(host.moves.frozen, host.moves.num_frozen, host.moves.forgotten, device));
  KERAS_SPARSE_RETURN_IF_ERROR(SendLiveMoves(host.moves, device));
  view_ = host;
  view_.slot_decays = slot_decays_.data();
  view_.log_keep.sums = log_keep_.data();
  view_.rates.sums = rates_.data();
  view_.moves.frozen = frozen_.data();
  view_.moves.live = live_.data();
  return Status::Ok();
}

// For one rule, these numbers identify the content of the arrays.
bool HistoryOnDevice::IsCurrent(const HistoryView& host) const {
  return host.step == view_.step && host.log_keep.size == view_.log_keep.size &&
         host.log_keep.forgotten == view_.log_keep.forgotten &&
         host.rates.size == view_.rates.size && host.rates.forgotten == view_.rates.forgotten &&
         host.moves.num_steps == view_.moves.num_steps &&
         host.moves.forgotten == view_.moves.forgotten;
}

Status HistoryOnDevice::Follow(const UpdateRule& rule, Device* device, HistoryView* view) {
  const MutexLock lock(mutex_);
  const auto* deferred = dynamic_cast<const DeferredRule*>(&rule);
  if (deferred != nullptr && rule.defers_moves() && !IsCurrent(deferred->history_view())) {
    const auto num_slots = static_cast<int64_t>(rule.layout().slots().size());
    KERAS_SPARSE_RETURN_IF_ERROR(Send(deferred->history_view(), num_slots, device));
  }
  *view = view_;
  // Kernels read the step of a record as it is stored.
  if (view->last_word >= 0) view->last_word = rule.layout().value_words();
  return Status::Ok();
}

}  // namespace keras_sparse::cuda_impl
