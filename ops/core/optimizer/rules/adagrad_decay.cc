#include "ops/core/optimizer/rules/adagrad_decay.h"

#include "ops/core/optimizer/element_rule.h"

namespace keras_sparse {
namespace {

class AdagradDecay : public ElementRule<AdagradDecayElement, UpdateRule> {
 public:
  explicit AdagradDecay(const RuleOptions& options)
      : ElementRule(options,
                    RecordLayout(options.dim,
                                 {{"accumulator", false,
                                   static_cast<float>(options.constants.at("initial_accumulator"))},
                                  {"num_decays", true, 0}},
                                 false)),
        initial_accumulator_(static_cast<float>(constant("initial_accumulator"))),
        epsilon_(static_cast<float>(constant("epsilon"))),
        log_decay_rate_(Log(constant("decay_rate"))) {}

  int num_numbers() const override { return 2; }

  AdagradDecayElement element() const override {
    return {{learning_rate_, decay_, epsilon_}, num_decays_, initial_accumulator_, log_decay_rate_};
  }

 protected:
  void SetNumbers(const float* numbers) override { num_decays_ = numbers[0]; }

 private:
  float initial_accumulator_;
  float epsilon_;
  double log_decay_rate_;
  float num_decays_ = 0;  // of every accumulator up to this step; exact up to 2^24
};

const bool kRegistered = UpdateRule::Register<AdagradDecay>(
    "adagrad_decay", {"initial_accumulator", "epsilon", "decay_rate"});

}  // namespace
}  // namespace keras_sparse
