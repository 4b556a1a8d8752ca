#include "ops/core/optimizer/rules/lion.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>

#include "ops/core/math/vector_functions.h"
#include "ops/core/optimizer/element_rule.h"
#include "ops/core/optimizer/step_sums.h"

namespace keras_sparse {
namespace {

class Lion : public ElementRule<LionElement> {
 public:
  explicit Lion(const RuleOptions& options)
      : ElementRule(options, Untouched::kMove,
                    {{"momentum", Rounded(options.constants.at("beta_2"))}}),
        beta_1_(static_cast<float>(constant("beta_1"))),
        beta_2_(Rounded(options.constants.at("beta_2"))),
        log_beta_2_(Log(beta_2_)) {}

  int64_t history_bytes() const override { return DeferredRule::history_bytes() + rates_.bytes(); }
  void ForgetSteps() override {
    DeferredRule::ForgetSteps();
    rates_.Forget();
  }
  void StartAt(int64_t step) override {
    DeferredRule::StartAt(step);
    rates_.StartAt(step);
  }

  LionElement element() const override {
    return {learning_rate_, decay_, beta_1_, static_cast<float>(beta_2_)};
  }

 protected:
  void RememberStep() override {
    DeferredRule::RememberStep();
    rates_.Append(learning_rate_);
  }

  void MoveRow(const Missed& missed, const float* record, float* row) const override {
    weight_decay() == 0 ? MoveRowOf<false>(missed, record, row)
                        : MoveRowOf<true>(missed, record, row);
  }

 private:
  static constexpr double kHalvings = 126;  // from one to the least float
  static constexpr int64_t kChunk = 64;

  template <bool kDecays>
  void MoveRowOf(const Missed& missed, const float* record, float* row) const {
    const float decay = missed.decay;
    const float* momentum = record + dim();
    const float least = LeastMomentum(missed.to - missed.from);
    int32_t num_stopping = 0;  // a count, since the compiler makes no vectors of a flag
    for (int64_t j = 0; j < dim(); ++j) {
      num_stopping += static_cast<int32_t>((momentum[j] != 0) & (std::abs(momentum[j]) < least));
    }
    if (num_stopping > 0) {
      MoveUntilTheyStop<kDecays>(missed, record, row);
      return;
    }
    const double kept = 1 + Expm1(LogKeep(missed.from, missed.to));
    const auto moves = static_cast<float>(Moves<kDecays>(missed.from, missed.to, kept));
    for (int64_t j = 0; j < dim(); ++j) {
      row[j] = record[j] - (decay * record[j] + moves * Sign(momentum[j]));
    }
  }

  // The sum of the learning rates of the steps after `from` up to `stop`, each less what weight
  // decay takes of it later.
  //   kept  what it leaves of the row in all steps
  template <bool kDecays>
  double Moves(int64_t from, int64_t stop, double kept) const {
    if constexpr (kDecays) {
      const double until_stop = Expm1(LogKeep(from, stop));
      return -until_stop / weight_decay() * (kept / (1 + until_stop));
    } else {
      return rates_.Between(from, stop);
    }
  }

  // A smaller momentum is no float any more in the last of these steps.
  float LeastMomentum(int64_t steps) const {
    const double shrunk = beta_1_ * Exp(static_cast<double>(steps - 1) * log_beta_2_);
    return static_cast<float>(std::min<double>(kLeastFloat / shrunk, kGreatestFloat));
  }

  // Rows in which a momentum becomes too small to count, each element after steps of its own.
  template <bool kDecays>
  void MoveUntilTheyStop(const Missed& missed, const float* record, float* row) const {
    const float* momentum = record + dim();
    const double missed_steps = std::min<double>(static_cast<double>(missed.to - missed.from),
                                                 std::numeric_limits<int32_t>::max());
    // A momentum counts once more than it shrinks on its way to the least float. A beta of one
    // never lets it stop.
    const double least_steps = beta_2_ == 1 ? missed_steps : 1;
    const double steps_a_halving = beta_2_ == 1 ? 0 : -kLog2 / log_beta_2_;
    const double kept = 1 + Expm1(LogKeep(missed.from, missed.to));
    for (int64_t begin = 0; begin < dim(); begin += kChunk) {
      const int64_t n = std::min(kChunk, dim() - begin);
      std::array<int64_t, kChunk> stops;
      for (int64_t i = 0; i < n; ++i) {
        const float first = std::abs(momentum[begin + i]) * beta_1_;
        double steps = least_steps + std::floor((Log2(first) + kHalvings) * steps_a_halving);
        steps = first > kGreatestFloat ? missed_steps : std::min(steps, missed_steps);
        stops[static_cast<size_t>(i)] =
            missed.from + (first < kLeastFloat ? 0 : static_cast<int32_t>(steps));
      }
      for (int64_t i = 0; i < n; ++i) {
        const int64_t j = begin + i;
        const int64_t stop = stops[static_cast<size_t>(i)];
        const auto moves = static_cast<float>(Moves<kDecays>(missed.from, stop, kept));
        row[j] = record[j] - (missed.decay * record[j] + moves * Sign(momentum[j]));
      }
    }
  }

  float beta_1_;
  double beta_2_;
  double log_beta_2_;
  StepSums rates_;
};

const bool kRegistered = UpdateRule::Register<Lion>("lion", {"beta_1", "beta_2"});

}  // namespace
}  // namespace keras_sparse
