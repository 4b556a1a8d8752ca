// velocity         = rho * velocity + (1 - rho) * g^2
// average_gradient = rho * average_gradient + (1 - rho) * g                      if centered
// increment        = learning_rate * g / sqrt(velocity - average_gradient^2 + epsilon)
// momentum         = mu * momentum + increment                                   if mu > 0
// row              -= decay * row + momentum                        or, without it, increment
//
// "rmsprop" has dense semantics; "lazy_rmsprop" changes only what got a gradient.
#include <cmath>
#include <memory>
#include <vector>

#include "ops/core/optimizer/deferred_rule.h"

namespace keras_sparse {
namespace {

class RmsProp : public DeferredRule {
 public:
  RmsProp(const RuleOptions& options, bool dense)
      : DeferredRule(options, UntouchedOf(options, dense), SlotsOf(options)),
        momentum_(static_cast<float>(constant("momentum"))),
        rho_(static_cast<float>(constant("rho"))),
        one_minus_rho_(static_cast<float>(1 - constant("rho"))),
        epsilon_(static_cast<float>(constant("epsilon"))),
        centered_(constant("centered") != 0) {
    if (defers_moves() && momentum_ > 0) TrackMoves(momentum_, 1, 0);
  }

 protected:
  void UpdateRecords(float* const* records, const float* const* gradients,
                     int64_t n) const override {
    if (momentum_ > 0) {
      centered_ ? UpdateRecordsOf<true, true>(records, gradients, n)
                : UpdateRecordsOf<true, false>(records, gradients, n);
    } else {
      centered_ ? UpdateRecordsOf<false, true>(records, gradients, n)
                : UpdateRecordsOf<false, false>(records, gradients, n);
    }
  }

  double move_weight() const override { return 1; }

  void MoveRow(const Missed& missed, const float* record, float* row) const override {
    if (momentum_ > 0) {
      MoveBy(missed, record, record + 2 * dim(), row);
    } else {
      DeferredRule::MoveRow(missed, record, row);
    }
  }

 private:
  static Untouched UntouchedOf(const RuleOptions& options, bool dense) {
    if (!dense) return Untouched::kStay;
    return options.constants.at("momentum") > 0 ? Untouched::kMove : Untouched::kShrink;
  }

  static std::vector<DecayingSlot> SlotsOf(const RuleOptions& options) {
    const double rho = Rounded(options.constants.at("rho"));
    std::vector<DecayingSlot> slots = {{"velocity", rho}};
    if (options.constants.at("momentum") > 0) {
      slots.push_back({"momentum", Rounded(options.constants.at("momentum"))});
    }
    if (options.constants.at("centered") != 0) {
      slots.push_back({"average_gradient", rho});
    }
    return slots;
  }

  template <bool kMomentum, bool kCentered>
  void UpdateRecordsOf(float* const* records, const float* const* gradients, int64_t n) const {
    const int64_t width = dim();
    const float learning_rate = learning_rate_;
    const float decay = decay_;
    const float rho = rho_;
    const float one_minus_rho = one_minus_rho_;
    const float mu = momentum_;
    const float epsilon = epsilon_;
    for (int64_t i = 0; i < n; ++i) {
      float* __restrict row = records[i];
      float* __restrict velocity = records[i] + width;
      float* __restrict momentum = kMomentum ? velocity + width : nullptr;
      float* __restrict average = kCentered ? velocity + (kMomentum ? 2 : 1) * width : nullptr;
      const float* __restrict g = gradients[i];
      for (int64_t j = 0; j < width; ++j) {
        velocity[j] = rho * velocity[j] + one_minus_rho * (g[j] * g[j]);
        float variance = velocity[j];
        if constexpr (kCentered) {
          average[j] = rho * average[j] + one_minus_rho * g[j];
          variance -= average[j] * average[j];
        }
        float move = learning_rate * g[j] / std::sqrt(variance + epsilon);
        if constexpr (kMomentum) move = momentum[j] = mu * momentum[j] + move;
        row[j] -= decay * row[j] + move;
      }
    }
  }

  float momentum_;
  float rho_;
  float one_minus_rho_;
  float epsilon_;
  bool centered_;
};

const std::vector<std::string> kConstants = {"rho", "momentum", "epsilon", "centered"};

const bool kRegistered =
    UpdateRule::Register("rmsprop", kConstants,
                         [](const RuleOptions& options) {
                           return std::unique_ptr<UpdateRule>(new RmsProp(options, true));
                         }) &&
    UpdateRule::Register("lazy_rmsprop", kConstants, [](const RuleOptions& options) {
      return std::unique_ptr<UpdateRule>(new RmsProp(options, false));
    });

}  // namespace
}  // namespace keras_sparse
