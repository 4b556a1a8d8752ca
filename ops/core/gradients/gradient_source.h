// GradientSource: reads the gradients of an op's ids.
#ifndef KERAS_SPARSE_OPS_CORE_GRADIENTS_GRADIENT_SOURCE_H_
#define KERAS_SPARSE_OPS_CORE_GRADIENTS_GRADIENT_SOURCE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/gradients/output_gradient.h"
#include "ops/core/math/prefetch.h"
#include "ops/core/math/strided_rows.h"
#include "ops/core/math/vector_math.h"

namespace keras_sparse {

// The gradient of the id at position p is coefficients[p] * grads[bag_of[p]]. It is never written
// for each id, which would need hotness times the bytes. Without coefficients an id's name is its
// bag, because nothing else is needed; with coefficients its name is its position.
class GradientSource {
 public:
  // Returns one source per gradient, whose `grads` must outlive it.
  // REQUIRES: gradient.bags.Check() returned OK for each
  static std::vector<GradientSource> Make(const std::vector<OutputGradient>& gradients,
                                          Executor* executor);

  int64_t dim() const { return dim_; }

  // The names of ids (see IdList) that the methods below take.
  const uint32_t* names() const { return counts_once() ? bag_of_.get() : nullptr; }

  // Returns the gradient of an id if it is stored as float32; else null.
  const float* Find(uint32_t name) const {
    return counts_once() && grads_.are_floats() ? grads_.FloatRow(name) : nullptr;
  }

  void Prefetch(uint32_t name) const {
    const int64_t bytes = FloatBytes(grads_.type) * dim_;
    PrefetchBytes(grads_.Row(Bag(name)), BytesToPrefetch(bytes, bytes));
  }

  // Computes sum = the gradients of these ids added in order; there is at least one.
  //   names  (n)    sum  (dim)
  void Sum(const uint32_t* names, int64_t n, float* sum) const {
    if (!grads_.are_floats()) return SumDecoded(names, n, sum);
    std::array<const float*, kBlockRows> rows;
    std::array<float, kBlockRows> weights;
    const float* so_far = nullptr;
    for (int64_t begin = 0; begin < n; begin += kBlockRows) {
      const int64_t size = std::min(kBlockRows, n - begin);
      for (int64_t i = 0; i < size; ++i) {
        const uint32_t name = names[begin + i];
        rows[static_cast<size_t>(i)] = grads_.FloatRow(Bag(name));
        if (!counts_once()) weights[static_cast<size_t>(i)] = coefficients_[name];
      }
      SumRows(rows.data(), counts_once() ? nullptr : weights.data(), size, dim_,
              {so_far, sum, 1, false, kEmptySum});
      so_far = sum;
    }
  }

  // Adds the gradient of id i to sums[numbers[i]], in order: the result of Sum if all sums start as
  // kEmptySum.
  //   names    (n), or null for 0, 1, 2, ...
  //   numbers  (n)
  //   sums     (more than the largest number, dim)
  void Scatter(const uint32_t* names, const uint32_t* numbers, int64_t n, float* sums) const;

 private:
  explicit GradientSource(const OutputGradient& gradient);

  // Whether each id counts once in its bag, so that its gradient is the bag's.
  bool counts_once() const { return coefficients_ == nullptr; }
  uint32_t Bag(uint32_t name) const { return counts_once() ? name : bag_of_[name]; }
  float Coefficient(uint32_t name) const { return counts_once() ? 1.0f : coefficients_[name]; }

  // Implement Sum and Scatter for gradients that are not float32.
  void SumDecoded(const uint32_t* names, int64_t n, float* sum) const;
  void ScatterDecoded(const uint32_t* names, const uint32_t* numbers, int64_t n, float* sums) const;

  // Fills the values of the ids of bags [first_bag, last_bag).
  void FillBags(const Bags& bags, int64_t first_bag, int64_t last_bag);

  GradientRows grads_;  // of bags
  int64_t dim_;
  std::unique_ptr<uint32_t[]> bag_of_;     // (num_ids); null without bags: the id's position
  std::unique_ptr<float[]> coefficients_;  // (num_ids), null if all are 1
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_GRADIENTS_GRADIENT_SOURCE_H_
