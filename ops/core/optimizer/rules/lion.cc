#include "ops/core/optimizer/rules/lion.h"

#include <memory>

#include "ops/core/math/vector_functions.h"
#include "ops/core/optimizer/element_rule.h"

namespace keras_sparse {
namespace {

template <bool kDecays>
class Lion : public ElementRule<LionElement<kDecays>> {
 public:
  explicit Lion(const RuleOptions& options)
      : ElementRule<LionElement<kDecays>>(
            options, Untouched::kMove,
            {{"momentum", DeferredRule::Rounded(options.constants.at("beta_2"))}}),
        beta_1_(static_cast<float>(options.constants.at("beta_1"))),
        beta_2_(static_cast<float>(options.constants.at("beta_2"))),
        log_beta_2_(Log(static_cast<double>(beta_2_))) {
    this->TrackRates();
  }

  LionElement<kDecays> element() const override {
    return {this->learning_rate_, this->decay_, beta_1_, beta_2_, log_beta_2_};
  }

 private:
  float beta_1_;
  float beta_2_;
  double log_beta_2_;
};

std::unique_ptr<UpdateRule> MakeLion(const RuleOptions& options) {
  if (options.weight_decay != 0) return std::make_unique<Lion<true>>(options);
  return std::make_unique<Lion<false>>(options);
}

const bool kRegistered = UpdateRule::Register("lion", {"beta_1", "beta_2"}, MakeLion);

}  // namespace
}  // namespace keras_sparse
