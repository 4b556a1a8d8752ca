// row -= learning_rate * g
#include <memory>
#include <vector>

#include "ops/core/update_rule.h"

namespace keras_sparse {
namespace {

class Sgd : public UpdateRule {
 public:
  explicit Sgd(int64_t dim) : UpdateRule("sgd", RowSchema(dim, {}, false)) {}

  int num_numbers() const override { return 1; }

  void BeginStep(int64_t step, const float* numbers) override {
    step_ = step;
    learning_rate_ = numbers[0];
  }

  void Update(float* const* records, const float* const* gradients, int64_t n) const override {
    const int64_t dim = schema().dim();
    for (int64_t i = 0; i < n; ++i) {
      float* __restrict row = records[i];
      const float* __restrict g = gradients[i];
      for (int64_t j = 0; j < dim; ++j) row[j] -= learning_rate_ * g[j];
    }
  }

 private:
  float learning_rate_ = 0;
};

const bool kRegistered = UpdateRule::Register("sgd", 0, [](int64_t dim, const std::vector<float>&) {
  return std::unique_ptr<UpdateRule>(new Sgd(dim));
});

}  // namespace
}  // namespace keras_sparse
