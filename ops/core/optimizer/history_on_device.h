// What a rule remembers of past steps, in a GPU's memory.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_HISTORY_ON_DEVICE_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_HISTORY_ON_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/device/device.h"
#include "ops/core/device/device_array.h"
#include "ops/core/math/powers.h"
#include "ops/core/optimizer/history_view.h"
#include "ops/core/optimizer/missed_moves.h"
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
// Thread safety: that of its device.
class HistoryOnDevice {
 public:
  // Makes it what the rule remembers now, in the order of the device's stream; nothing is sent that
  // is there already. After ResourceExhausted it may be called again.
  // REQUIRES: the same rule as before
  Status Follow(const UpdateRule& rule, Device* device);

  // For kernels of the device, until the rule changes. Without Follow no record misses a step.
  const HistoryView& view() const { return view_; }

 private:
  Status FollowLiveMoves(const MissedMoves::View& moves, Device* device);

  DeviceArray<Powers> slot_decays_;
  GrowingCopy<double> log_keep_;
  GrowingCopy<double> rates_;
  GrowingCopy<MissedMoves::Piece> frozen_;
  DeviceArray<MissedMoves::Piece> live_;
  std::vector<MissedMoves::Piece> sent_live_;
  HistoryView view_;
};

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_HISTORY_ON_DEVICE_H_
