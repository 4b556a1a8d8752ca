// row -= decay * row + learning_rate * g
#include <memory>

#include "ops/core/optimizer/deferred_rule.h"

namespace keras_sparse {
namespace {

class Sgd : public DeferredRule {
 public:
  explicit Sgd(const RuleOptions& options) : DeferredRule(options, Untouched::kDecay, {}) {}

 protected:
  void UpdateRecords(float* const* records, const float* const* gradients,
                     int64_t n) const override {
    const int64_t width = dim();
    const float learning_rate = learning_rate_;
    const float decay = decay_;
    for (int64_t i = 0; i < n; ++i) {
      float* __restrict row = records[i];
      const float* __restrict g = gradients[i];
      for (int64_t j = 0; j < width; ++j) row[j] -= decay * row[j] + learning_rate * g[j];
    }
  }
};

const bool kRegistered = UpdateRule::Register<Sgd>("sgd", {});

}  // namespace
}  // namespace keras_sparse
