// velocity = momentum * velocity - learning_rate * g
// row      += velocity - decay * row                                   or, with nesterov,
// row      += momentum * velocity - learning_rate * g - decay * row
#include <memory>

#include "ops/core/optimizer/deferred_rule.h"

namespace keras_sparse {
namespace {

class Momentum : public DeferredRule {
 public:
  explicit Momentum(const RuleOptions& options)
      : DeferredRule(options, Untouched::kMove,
                     {{"momentum", Rounded(options.constants.at("momentum"))}}),
        momentum_(static_cast<float>(constant("momentum"))),
        nesterov_(constant("nesterov") != 0) {
    TrackMoves(momentum_, 1, 0);
  }

 protected:
  void UpdateRecords(float* const* records, const float* const* gradients,
                     int64_t n) const override {
    if (nesterov_) {
      UpdateRecordsOf<true>(records, gradients, n);
    } else {
      UpdateRecordsOf<false>(records, gradients, n);
    }
  }

  double move_weight() const override { return nesterov_ ? -momentum_ : -1; }

  void MoveRow(const Missed& missed, const float* record, float* row) const override {
    MoveBy(missed, record, record + dim(), row);
  }

 private:
  template <bool kNesterov>
  void UpdateRecordsOf(float* const* records, const float* const* gradients, int64_t n) const {
    const int64_t width = dim();
    const float learning_rate = learning_rate_;
    const float decay = decay_;
    const float momentum = momentum_;
    for (int64_t i = 0; i < n; ++i) {
      float* __restrict row = records[i];
      float* __restrict velocity = records[i] + width;
      const float* __restrict g = gradients[i];
      for (int64_t j = 0; j < width; ++j) {
        velocity[j] = momentum * velocity[j] - learning_rate * g[j];
        if constexpr (kNesterov) {
          row[j] -= decay * row[j] - (momentum * velocity[j] - learning_rate * g[j]);
        } else {
          row[j] -= decay * row[j] - velocity[j];
        }
      }
    }
  }

  float momentum_;
  bool nesterov_;
};

const bool kRegistered = UpdateRule::Register<Momentum>("momentum", {"momentum", "nesterov"});

}  // namespace
}  // namespace keras_sparse
