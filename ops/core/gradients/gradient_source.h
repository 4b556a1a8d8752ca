// Where the gradients of an op's ids are read from.
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
// out for each id: that would be hotness times the bytes. Without coefficients the bag is all that
// is to be known of an id, so that it is known by its bag, and else by its position.
class GradientSource {
 public:
  // One a gradient, whose `grads` must outlive it.
  // REQUIRES: gradient.bags.Check() of each
  static std::vector<GradientSource> Make(const std::vector<OutputGradient>& gradients,
                                          Executor* executor);

  int64_t dim() const { return dim_; }

  // The names of ids (see IdList), by which the methods below know them.
  const uint32_t* names() const { return counts_once() ? bag_of_.get() : nullptr; }

  // The gradient of an id, if it lies somewhere as floats; else null.
  const float* Find(uint32_t name) const {
    return counts_once() && grads_.are_floats() ? grads_.FloatRow(name) : nullptr;
  }

  void Prefetch(uint32_t name) const {
    const int64_t bytes = FloatBytes(grads_.type) * dim_;
    PrefetchBytes(grads_.Row(Bag(name)), BytesToPrefetch(bytes, bytes));
  }

  // sum = the gradients of these ids added in their order; there is at least one.
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

  // sums[numbers[i]] += the gradient of id i, one after the other: what Sum gives where all begin
  // as kEmptySum.
  //   names    (n), or null for 0, 1, 2, ...
  //   numbers  (n)
  //   sums     (more than the largest number, dim)
  void Scatter(const uint32_t* names, const uint32_t* numbers, int64_t n, float* sums) const;

 private:
  explicit GradientSource(const OutputGradient& gradient);

  // Whether each id counts once in its bag: the gradient of the bag is that of the id.
  bool counts_once() const { return coefficients_ == nullptr; }
  uint32_t Bag(uint32_t name) const { return counts_once() ? name : bag_of_[name]; }
  float Coefficient(uint32_t name) const { return counts_once() ? 1.0f : coefficients_[name]; }

  // Sum and Scatter where gradients are not floats.
  void SumDecoded(const uint32_t* names, int64_t n, float* sum) const;
  void ScatterDecoded(const uint32_t* names, const uint32_t* numbers, int64_t n, float* sums) const;

  // Fills in what belongs to the ids of bags [first_bag, last_bag).
  void FillBags(const Bags& bags, int64_t first_bag, int64_t last_bag);

  GradientRows grads_;  // of bags
  int64_t dim_;
  std::unique_ptr<uint32_t[]> bag_of_;     // (num_ids), null without bags: its own position
  std::unique_ptr<float[]> coefficients_;  // (num_ids), null if all are 1
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_GRADIENTS_GRADIENT_SOURCE_H_
