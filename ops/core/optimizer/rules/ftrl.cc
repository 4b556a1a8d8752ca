// linear      += g + 2 * shrinkage * row
//                  - (new_accumulator^p - accumulator^p) / learning_rate * row
//     with new_accumulator = accumulator + g^2 and p = -learning_rate_power
// accumulator  = new_accumulator
// row          = (clip(linear, -l1, l1) - linear)
//                  / (accumulator^p / learning_rate + 2 * l2 + beta / learning_rate)
//
// Only rows that got a gradient change. The row of the first line is what weight decay leaves of
// it.
#include <algorithm>
#include <cmath>
#include <memory>

#include "ops/core/optimizer/update_rule.h"

// The vector mathematics of glibc has a clone of powf that loops can call for whole vectors.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
extern "C" __attribute__((simd("notinbranch"), const)) float powf(float, float) noexcept;
#endif

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
  void UpdateRecords(float* const* records, const float* const* gradients,
                     int64_t n) const override {
    if (power_ == 0.5f) {
      UpdateRecordsOf(records, gradients, n, [](float x) { return std::sqrt(x); });
    } else {
      UpdateRecordsOf(records, gradients, n, [power = power_](float x) { return powf(x, power); });
    }
  }

 private:
  template <typename Power>
  void UpdateRecordsOf(float* const* records, const float* const* gradients, int64_t n,
                       const Power& power) const {
    const int64_t width = dim();
    const float decay = decay_;
    const float inverse_rate = 1 / learning_rate_;
    const float l1 = l1_;
    const float twice_l2 = 2 * l2_ + beta_ * inverse_rate;
    const float twice_shrinkage = 2 * shrinkage_;
    for (int64_t i = 0; i < n; ++i) {
      float* __restrict row = records[i];
      float* __restrict accumulator = records[i] + width;
      float* __restrict linear = records[i] + 2 * width;
      const float* __restrict g = gradients[i];
      for (int64_t j = 0; j < width; ++j) {
        const float old = row[j] - decay * row[j];
        const float new_accumulator = accumulator[j] + g[j] * g[j];
        const float new_power = power(new_accumulator);
        linear[j] +=
            g[j] + twice_shrinkage * old - (new_power - power(accumulator[j])) * inverse_rate * old;
        accumulator[j] = new_accumulator;
        const float clipped = std::max(-l1, std::min(l1, linear[j]));
        row[j] = (clipped - linear[j]) / (new_power * inverse_rate + twice_l2);
      }
    }
  }

  float power_;
  float l1_;
  float l2_;
  float shrinkage_;
  float beta_;
};

const bool kRegistered = UpdateRule::Register<Ftrl>(
    "ftrl", {"initial_accumulator", "learning_rate_power", "l1", "l2", "l2_shrinkage", "beta"});

}  // namespace
}  // namespace keras_sparse
