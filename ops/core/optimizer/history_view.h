// HistoryView: what a rule remembers of past steps as plain numbers, for CPU loops and GPU kernels
// alike.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_HISTORY_VIEW_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_HISTORY_VIEW_H_

#include <cstdint>
#include <cstring>

#include "ops/core/base/host_device.h"
#include "ops/core/math/powers.h"
#include "ops/core/math/vector_functions.h"
#include "ops/core/optimizer/deferred_updates.h"
#include "ops/core/optimizer/prefix_sums.h"

namespace keras_sparse {

// Some consecutive steps that a record has missed.
struct Missed {
  int64_t from;  // the steps after this one ...
  int64_t to;    // ... up to this one
  float decay;   // the part of the row that weight decay removes
  // How momentum moves the row, if the rule tracks moves; its length is not that of these steps.
  DeferredUpdates::Piece moves;
};

struct HistoryView {
  int64_t step = 0;        // the last finished step
  int64_t last_word = -1;  // position of a record's last step; negative if none is kept
  double weight_decay = 0;
  PrefixSums::View log_keep;            // logs of the part that weight decay leaves, if any
  PrefixSums::View rates;               // the learning rates, if the rule tracks them
  DeferredUpdates::View moves;          // if the rule tracks them
  const Powers* slot_decays = nullptr;  // (slots) the factors by which slots shrink in a step

  // Returns the step that a record is as of. Steps wrap at 2^32 in a record.
  KERAS_SPARSE_HOST_DEVICE int64_t StepOf(const float* record) const {
    if (last_word < 0) return step;
    uint32_t last;
    memcpy(&last, record + last_word, sizeof(last));
    return step - static_cast<uint32_t>(static_cast<uint32_t>(step) - last);
  }
  KERAS_SPARSE_HOST_DEVICE void SetCurrent(float* record) const {
    if (last_word < 0) return;
    const auto last = static_cast<uint32_t>(step);
    memcpy(record + last_word, &last, sizeof(last));
  }

  // Returns the logarithm of the part of a row that weight decay leaves over the steps after `from`
  // up to `to`.
  KERAS_SPARSE_HOST_DEVICE double LogKeep(int64_t from, int64_t to) const {
    return weight_decay == 0 ? 0 : log_keep.Between(from, to);
  }

  // Returns the steps after `from` for a record whose last gradient was in step `first`.
  // REQUIRES: from < step, and no step after `first` is forgotten
  KERAS_SPARSE_HOST_DEVICE Missed After(int64_t first, int64_t from) const {
    Missed missed = {from, step, 0, {}};
    if (from - first < moves.reach) {
      missed.moves = moves.From(from);
      const int64_t end = from + missed.moves.length;
      if (end - first < moves.reach) {
        missed.to = end;
      } else if (weight_decay != 0) {
        missed.moves.Keep(static_cast<float>(Exp(LogKeep(end, step))));
      }
    }
    if (weight_decay != 0) missed.decay = static_cast<float>(-Expm1(LogKeep(from, missed.to)));
    return missed;
  }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_HISTORY_VIEW_H_
