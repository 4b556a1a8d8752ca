// HistoryOnDevice: a copy in a GPU's memory of a rule's history.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_HISTORY_ON_DEVICE_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_HISTORY_ON_DEVICE_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/mutex.h"
#include "ops/core/base/status.h"
#include "ops/core/device/device.h"
#include "ops/core/device/device_array.h"
#include "ops/core/math/powers.h"
#include "ops/core/optimizer/deferred_updates.h"
#include "ops/core/optimizer/history_view.h"
#include "ops/core/optimizer/update_rule.h"

namespace keras_sparse::cuda_impl {

// A copy of an array that grows at its end until it is cleared and starts again.
template <typename T>
class GrowingCopy {
 public:
  //   beginning  a new value means that the array has started again
  Status Follow(const T* from, int64_t size, int64_t beginning, Device* device);
  const T* data() const { return copy_.data(); }

 private:
  DeviceArray<T> copy_;
  int64_t size_ = 0;  // allocated size
  int64_t beginning_ = 0;
};

// One per rule, for as long as the table has the rule, so that kernels can apply missed steps. A
// step of the rule adds some bytes per array, and the moves that still change: some KB at most.
//
// Thread safety: Follow may be called from any thread, as concurrent lookups do.
class HistoryOnDevice {
 public:
  // Enqueues work on the device to bring the copy up to date with the rule; sends only what is
  // missing there. May be called again after ResourceExhausted.
  //   view  for kernels of this device, until the rule changes
  // REQUIRES: the same rule in every call
  Status Follow(const UpdateRule& rule, Device* device, HistoryView* view);

 private:
  bool IsCurrent(const HistoryView& host) const REQUIRES(mutex_);
  Status Send(const HistoryView& host, int64_t num_slots, Device* device) REQUIRES(mutex_);
  Status SendLiveMoves(const DeferredUpdates::View& moves, Device* device) REQUIRES(mutex_);

  Mutex mutex_;
  DeviceArray<Powers> slot_decays_ GUARDED_BY(mutex_);
  GrowingCopy<double> log_keep_ GUARDED_BY(mutex_);
  GrowingCopy<double> rates_ GUARDED_BY(mutex_);
  GrowingCopy<DeferredUpdates::Piece> frozen_ GUARDED_BY(mutex_);
  DeviceArray<DeferredUpdates::Piece> live_ GUARDED_BY(mutex_);
  std::vector<DeferredUpdates::Piece> sent_live_ GUARDED_BY(mutex_);
  HistoryView view_ GUARDED_BY(mutex_);
};

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_HISTORY_ON_DEVICE_H_
