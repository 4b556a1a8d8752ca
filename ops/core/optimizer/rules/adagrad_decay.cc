// accumulator  = max(accumulator * decay_rate^k, initial_accumulator)
// accumulator += g^2
// row          -= decay * row + learning_rate * g / sqrt(accumulator + epsilon)
//
// k is how many times all accumulators were to decay since the row's last gradient: the caller says
// with each step how many times since the first one, and a row keeps its own count. Only rows that
// got a gradient change.
#include <algorithm>
#include <cmath>
#include <memory>

#include "ops/core/optimizer/update_rule.h"

namespace keras_sparse {
namespace {

class AdagradDecay : public UpdateRule {
 public:
  explicit AdagradDecay(const RuleOptions& options)
      : UpdateRule(options,
                   RecordLayout(options.dim,
                                {{"accumulator", false,
                                  static_cast<float>(options.constants.at("initial_accumulator"))},
                                 {"num_decays", true, 0}},
                                false)),
        initial_accumulator_(static_cast<float>(constant("initial_accumulator"))),
        epsilon_(static_cast<float>(constant("epsilon"))) {}

  int num_numbers() const override { return 2; }

 protected:
  void SetNumbers(const float* numbers) override { num_decays_ = numbers[0]; }

  void UpdateRecords(float* const* records, const float* const* gradients,
                     int64_t n) const override {
    const int64_t width = dim();
    const float learning_rate = learning_rate_;
    const float decay = decay_;
    const float epsilon = epsilon_;
    const float floor = initial_accumulator_;
    for (int64_t i = 0; i < n; ++i) {
      float* __restrict row = records[i];
      float* __restrict accumulator = records[i] + width;
      float* num_decays = records[i] + 2 * width;
      const float* __restrict g = gradients[i];
      if (num_decays_ > *num_decays) {
        const auto factor = static_cast<float>(
            std::pow(constant("decay_rate"), static_cast<double>(num_decays_ - *num_decays)));
        for (int64_t j = 0; j < width; ++j) {
          accumulator[j] = std::max(accumulator[j] * factor, floor);
        }
        *num_decays = num_decays_;
      }
      for (int64_t j = 0; j < width; ++j) {
        accumulator[j] += g[j] * g[j];
        row[j] -= decay * row[j] + learning_rate * g[j] / std::sqrt(accumulator[j] + epsilon);
      }
    }
  }

 private:
  float initial_accumulator_;
  float epsilon_;
  float num_decays_ = 0;  // of every accumulator up to this step; exact up to 2^24
};

const bool kRegistered = UpdateRule::Register<AdagradDecay>(
    "adagrad_decay", {"initial_accumulator", "epsilon", "decay_rate"});

}  // namespace
}  // namespace keras_sparse
