#include "ops/core/optimizer/rules/ftrl.h"

#include <memory>

#include "ops/core/optimizer/element_rule.h"

namespace keras_sparse {
namespace {

class Ftrl : public UpdateRule {
 public:
  explicit Ftrl(const RuleOptions& options)
      : UpdateRule(options,
                   RecordLayout(options.dim,
                                {{"accumulator", false,
                                  static_cast<float>(options.constants.at("initial_accumulator"))},
                                 {"linear", false, 0}},
                                false)),
        power_(static_cast<float>(-constant("learning_rate_power"))),
        l1_(static_cast<float>(constant("l1"))),
        l2_(static_cast<float>(constant("l2"))),
        shrinkage_(static_cast<float>(constant("l2_shrinkage"))),
        beta_(static_cast<float>(constant("beta"))) {}

 protected:
  float power_;
  float l1_;
  float l2_;
  float shrinkage_;
  float beta_;
};

template <bool kSqrt>
class FtrlOf : public ElementRule<FtrlElement<kSqrt>, Ftrl> {
 public:
  using ElementRule<FtrlElement<kSqrt>, Ftrl>::ElementRule;

  FtrlElement<kSqrt> element() const override {
    const float inverse_rate = 1 / this->learning_rate_;
    return {inverse_rate,
            this->decay_,
            this->power_,
            this->l1_,
            2 * this->l2_ + this->beta_ * inverse_rate,
            2 * this->shrinkage_};
  }
};

std::unique_ptr<UpdateRule> MakeFtrl(const RuleOptions& options) {
  if (static_cast<float>(options.constants.at("learning_rate_power")) == -0.5f) {
    return std::make_unique<FtrlOf<true>>(options);
  }
  return std::make_unique<FtrlOf<false>>(options);
}

const bool kRegistered = UpdateRule::Register(
    "ftrl", {"initial_accumulator", "learning_rate_power", "l1", "l2", "l2_shrinkage", "beta"},
    MakeFtrl);

}  // namespace
}  // namespace keras_sparse
