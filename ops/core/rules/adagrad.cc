// accumulator += g^2
// row         -= learning_rate * g / sqrt(accumulator + epsilon)
#include <cmath>
#include <memory>
#include <vector>

#include "ops/core/update_rule.h"

namespace keras_sparse {
namespace {

class Adagrad : public UpdateRule {
 public:
  Adagrad(int64_t dim, float initial_accumulator)
      : UpdateRule("adagrad",
                   RowSchema(dim, {{"accumulator", false, initial_accumulator}}, false)) {}

  int num_numbers() const override { return 2; }

  void BeginStep(int64_t step, const float* numbers) override {
    step_ = step;
    learning_rate_ = numbers[0];
    epsilon_ = numbers[1];
  }

  void Update(float* const* records, const float* const* gradients, int64_t n) const override {
    const int64_t dim = schema().dim();
    const float learning_rate = learning_rate_;
    const float epsilon = epsilon_;
    for (int64_t i = 0; i < n; ++i) {
      float* __restrict row = records[i];
      float* __restrict accumulator = records[i] + dim;
      const float* __restrict g = gradients[i];
      for (int64_t j = 0; j < dim; ++j) {
        accumulator[j] += g[j] * g[j];
        row[j] -= learning_rate * g[j] / std::sqrt(accumulator[j] + epsilon);
      }
    }
  }

 private:
  float learning_rate_ = 0;
  float epsilon_ = 0;
};

const bool kRegistered =
    UpdateRule::Register("adagrad", 1, [](int64_t dim, const std::vector<float>& slots) {
      return std::unique_ptr<UpdateRule>(new Adagrad(dim, slots[0]));
    });

}  // namespace
}  // namespace keras_sparse
