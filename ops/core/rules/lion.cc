// row      -= decay * row + learning_rate * sign(beta_1 * momentum + (1 - beta_1) * g)
// momentum = beta_2 * momentum + (1 - beta_2) * g
//
// Without a gradient a row moves by the full learning rate at every step, until its momentum is too
// small for a float.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "ops/core/dense_rule.h"
#include "ops/core/step_sums.h"

namespace keras_sparse {
namespace {

float Sign(float x) {
  const float sign = static_cast<float>(x > 0) - static_cast<float>(x < 0);
  return x == x ? sign : x;  // NaN shows
}

class Lion : public DenseRule {
 public:
  explicit Lion(const RuleOptions& options)
      : DenseRule(options, Untouched::kMove,
                  {{"momentum", Rounded(options.constants.at("beta_2"))}}),
        beta_1_(static_cast<float>(constant("beta_1"))),
        beta_2_(Rounded(options.constants.at("beta_2"))) {}

 protected:
  void UpdateRecords(float* const* records, const float* const* gradients,
                     int64_t n) const override {
    const int64_t width = dim();
    const float learning_rate = learning_rate_;
    const float decay = decay_;
    const float beta_1 = beta_1_;
    const float one_minus_beta_1 = 1 - beta_1_;
    const auto beta_2 = static_cast<float>(beta_2_);
    const float one_minus_beta_2 = 1 - beta_2;
    for (int64_t i = 0; i < n; ++i) {
      float* __restrict row = records[i];
      float* __restrict momentum = records[i] + width;
      const float* __restrict g = gradients[i];
      for (int64_t j = 0; j < width; ++j) {
        const float direction = Sign(momentum[j] * beta_1 + g[j] * one_minus_beta_1);
        row[j] -= decay * row[j] + learning_rate * direction;
        momentum[j] = momentum[j] * beta_2 + g[j] * one_minus_beta_2;
      }
    }
  }

  void RememberStep() override {
    DenseRule::RememberStep();
    rates_.Append(learning_rate_);
  }

  void MoveRow(const Missed& missed, const float* record, float* row) const override {
    const float decay = missed.decay;
    const float* momentum = record + dim();
    const auto moves = static_cast<float>(Moves(missed.from, missed.to));
    const float least = LeastMomentum(missed.to - missed.from);
    int32_t num_stopping = 0;  // a count, since the compiler makes no vectors of a flag
    for (int64_t j = 0; j < dim(); ++j) {
      num_stopping += static_cast<int32_t>((momentum[j] != 0) & (std::abs(momentum[j]) < least));
    }
    if (num_stopping > 0) {
      MoveUntilTheyStop(missed, record, row);
      return;
    }
    for (int64_t j = 0; j < dim(); ++j)
      row[j] = record[j] - (decay * record[j] + moves * Sign(momentum[j]));
  }

 private:
  static constexpr double kLeastFloat = std::numeric_limits<float>::min();
  static constexpr double kGreatestFloat = std::numeric_limits<float>::max();

  // The sum of the learning rates of the steps, each less what weight decay takes of it since.
  double Moves(int64_t from, int64_t to) const {
    return weight_decay() == 0 ? rates_.Between(from, to)
                               : -std::expm1(LogKeep(from, to)) / weight_decay();
  }

  // A smaller momentum is no float any more in the last of these steps.
  float LeastMomentum(int64_t steps) const {
    const double shrunk = beta_1_ * std::exp(static_cast<double>(steps - 1) * std::log(beta_2_));
    return static_cast<float>(std::min(kLeastFloat / shrunk, kGreatestFloat));
  }

  // One element at a time, which only rows of a momentum near zero or of thousands of missed steps
  // come to.
  void MoveUntilTheyStop(const Missed& missed, const float* record, float* row) const {
    const float* momentum = record + dim();
    for (int64_t j = 0; j < dim(); ++j) {
      const double first = static_cast<double>(std::abs(momentum[j])) * beta_1_;
      const double missed_steps = static_cast<double>(missed.to - missed.from);
      const double steps = 1 + std::floor(std::log(kLeastFloat / first) / std::log(beta_2_));
      // A beta of one never lets it stop.
      const auto moving =
          static_cast<int64_t>(beta_2_ == 1 ? missed_steps : std::clamp(steps, 0.0, missed_steps));
      const int64_t stop = first == 0 ? missed.from : missed.from + moving;
      const double moves = Moves(missed.from, stop) * std::exp(LogKeep(stop, missed.to));
      row[j] =
          record[j] - (missed.decay * record[j] + static_cast<float>(moves) * Sign(momentum[j]));
    }
  }

  float beta_1_;
  double beta_2_;
  StepSums rates_;
};

const bool kRegistered = UpdateRule::Register<Lion>("lion", {"beta_1", "beta_2"});

}  // namespace
}  // namespace keras_sparse
