// What a rule remembers of past steps, in a GPU's memory.
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

// A copy of an array that grows at its end, until what it holds is forgotten and it begins anew.
template <typename T>
class GrowingCopy {
 public:
  //   beginning  another one says that the array has begun anew
  Status Follow(const T* from, int64_t size, int64_t beginning, Device* device);
  const T* data() const { return copy_.data(); }

 private:
  DeviceArray<T> copy_;
  int64_t size_ = 0;  // of what it has room for
  int64_t beginning_ = 0;
};

// One a rule, for as long as the table has it: kernels then make up for missed steps. A step of a
// rule adds some bytes for each, and those of its moves that still change: some KB at most.
//
// Thread safety: Follow may be called from any thread, as lookups do at once.
class HistoryOnDevice {
 public:
  // Gives the device the work to make it what the rule remembers now; nothing is sent that is there
  // already. After ResourceExhausted it may be called again.
  //   view  for kernels of this device, until the rule changes
  // REQUIRES: the same rule as before
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
