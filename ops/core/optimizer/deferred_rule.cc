#include "ops/core/optimizer/deferred_rule.h"

#include <algorithm>
#include <cmath>

#include "ops/core/math/vector_functions.h"
#include "ops/core/math/vector_math.h"

namespace keras_sparse {
namespace {

bool DefersMoves(const RuleOptions& options, Untouched untouched) {
  if (untouched == Untouched::kDecay) return options.weight_decay != 0;
  return untouched != Untouched::kStay;
}

template <typename DecayingSlots>
std::vector<Slot> SlotsOf(const DecayingSlots& decaying_slots) {
  std::vector<Slot> slots;
  slots.reserve(decaying_slots.size());
  for (const auto& each : decaying_slots) slots.push_back({each.name, false, each.initial_value});
  return slots;
}

}  // namespace

DeferredRule::DeferredRule(const RuleOptions& options, Untouched untouched,
                           const std::vector<DecayingSlot>& slots)
    : UpdateRule(options,
                 RecordLayout(options.dim, SlotsOf(slots), DefersMoves(options, untouched))),
      untouched_(untouched) {
  for (const DecayingSlot& each : slots) slot_decays_.emplace_back(each.decay);
}

void DeferredRule::RememberStep() {
  if (!defers_moves()) return;
  const double decay = weight_decay() * static_cast<double>(learning_rate_);
  if (weight_decay() != 0) log_keep_.Append(Log1p(-decay));
  if (moves_ != nullptr) moves_->Append(move_weight(), move_offset(), 1 - decay);
}

int64_t DeferredRule::history_bytes() const {
  return UpdateRule::history_bytes() + log_keep_.bytes() +
         (moves_ == nullptr ? 0 : moves_->bytes());
}

void DeferredRule::ForgetSteps() {
  UpdateRule::ForgetSteps();
  log_keep_.Forget();
  if (moves_ != nullptr) moves_->Forget();
}

void DeferredRule::StartAt(int64_t step) {
  UpdateRule::StartAt(step);
  log_keep_.StartAt(step);
  if (moves_ != nullptr) moves_->StartAt(step);
}

DeferredRule::Missed DeferredRule::After(int64_t first, int64_t from) const {
  Missed missed = {from, step(), 0, {}};
  if (moves_ != nullptr && from - first < moves_->reach()) {
    missed.moves = moves_->From(from);
    const int64_t end = from + missed.moves.length;
    if (end - first < moves_->reach()) {
      missed.to = end;
    } else if (weight_decay() != 0) {
      missed.moves.Keep(static_cast<float>(Exp(LogKeep(end, step()))));
    }
  }
  if (weight_decay() != 0) {
    missed.decay = static_cast<float>(-Expm1(LogKeep(from, missed.to)));
  }
  return missed;
}

void DeferredRule::CatchUp(float* record) const {
  const int64_t first = step() - MissedSteps(record);
  for (int64_t from = first; from < step();) {
    const Missed missed = After(first, from);
    MoveRow(missed, record, record);
    float* slot = record + dim();
    for (size_t s = 0; s < slot_decays_.size(); ++s) {
      const auto factor = static_cast<float>(slot_decays_[s](missed.to - from));
      if (factor != 1) Scale(factor, dim(), slot);
      slot += dim();
    }
    from = missed.to;
  }
  layout().SetLastStep(record, step());
}

void DeferredRule::Read(const float* record, float* row) const {
  const int64_t first = step() - MissedSteps(record);
  if (first == step()) {
    CopyRow(record, dim(), row);
    return;
  }
  const Missed missed = After(first, first);
  if (missed.to == step()) {
    MoveRow(missed, record, row);
    return;
  }
  static thread_local std::vector<float> copy;
  copy.assign(record, record + layout().record_words());
  CatchUp(copy.data());
  CopyRow(copy.data(), dim(), row);
}

void DeferredRule::MoveRow(const Missed& missed, const float* record, float* row) const {
  const float decay = missed.decay;
  for (int64_t j = 0; j < dim(); ++j) row[j] = record[j] - decay * record[j];
}

void DeferredRule::MoveBy(const Missed& missed, const float* record, const float* slot,
                          float* row) const {
  const float decay = missed.decay;
  const float moves = missed.moves.total;
  for (int64_t j = 0; j < dim(); ++j) row[j] = record[j] - (decay * record[j] + moves * slot[j]);
}

void DeferredRule::MoveByMomentum(const Missed& missed, const float* record, float epsilon,
                                  float* row) const {
  const float decay = missed.decay;
  const MissedMoves::Piece moves = missed.moves;
  const float* momentum = record + dim();
  const float* velocity = record + 2 * dim();
  for (int64_t j = 0; j < dim(); ++j) {
    const float move = momentum[j] * moves.Over(std::sqrt(velocity[j]), epsilon);
    row[j] = record[j] - (decay * record[j] + move);
  }
}

}  // namespace keras_sparse
