#include "ops/core/optimizer/deferred_rule.h"

#include "ops/core/math/vector_functions.h"

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
  SetHistoryView();
}

void DeferredRule::TrackMoves(double mu, double nu, double epsilon) {
  moves_ = std::make_unique<DeferredUpdates>(mu, nu, epsilon);
  SetHistoryView();
}

void DeferredRule::TrackRates() {
  rates_ = std::make_unique<PrefixSums>();
  SetHistoryView();
}

void DeferredRule::SetHistoryView() {
  HistoryView view;
  view.step = step();
  if (defers_moves()) view.last_word = float_layout().value_words();
  view.weight_decay = weight_decay();
  view.log_keep = log_keep_.view();
  if (rates_ != nullptr) view.rates = rates_->view();
  if (moves_ != nullptr) view.moves = moves_->view();
  view.slot_decays = slot_decays_.data();
  history_view_ = view;
}

void DeferredRule::RememberStep() {
  if (!defers_moves()) return;
  const double decay = weight_decay() * static_cast<double>(learning_rate_);
  if (weight_decay() != 0) log_keep_.Append(Log1p(-decay));
  if (moves_ != nullptr) moves_->Append(move_weight(), move_offset(), 1 - decay);
  if (rates_ != nullptr) rates_->Append(static_cast<double>(learning_rate_));
  SetHistoryView();
}

int64_t DeferredRule::history_bytes() const {
  return UpdateRule::history_bytes() + log_keep_.bytes() +
         (moves_ == nullptr ? 0 : moves_->bytes()) + (rates_ == nullptr ? 0 : rates_->bytes());
}

void DeferredRule::ForgetSteps() {
  UpdateRule::ForgetSteps();
  log_keep_.Forget();
  if (moves_ != nullptr) moves_->Forget();
  if (rates_ != nullptr) rates_->Forget();
  SetHistoryView();
}

void DeferredRule::StartAt(int64_t step) {
  UpdateRule::StartAt(step);
  log_keep_.StartAt(step);
  if (moves_ != nullptr) moves_->StartAt(step);
  if (rates_ != nullptr) rates_->StartAt(step);
  SetHistoryView();
}

}  // namespace keras_sparse
