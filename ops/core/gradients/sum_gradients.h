// SumGradients: sums the gradients of a row on a CPU, as kGradientsPerRun defines their sum.
#ifndef KERAS_SPARSE_OPS_CORE_GRADIENTS_SUM_GRADIENTS_H_
#define KERAS_SPARSE_OPS_CORE_GRADIENTS_SUM_GRADIENTS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/core/gradients/output_gradient.h"
#include "ops/core/math/prefetch.h"
#include "ops/core/math/vector_math.h"

namespace keras_sparse {

// The gradients of a row, in input order.
//   RowOf          row_of(i) returns the address of gradient i
//   CoefficientOf  coefficient_of(i) returns the factor of gradient i
template <typename RowOf, typename CoefficientOf>
struct RowGradients {
  FloatType type;
  int64_t dim;
  bool have_coefficients;  // else all factors are 1
  RowOf row_of;
  CoefficientOf coefficient_of;
};
template <typename RowOf, typename CoefficientOf>
RowGradients(FloatType, int64_t, bool, RowOf, CoefficientOf) -> RowGradients<RowOf, CoefficientOf>;

// Adds gradients [begin, end) in order.
//   sum  (dim)
template <typename RowOf, typename CoefficientOf>
inline void SumRun(const RowGradients<RowOf, CoefficientOf>& gradients, int64_t begin, int64_t end,
                   float* sum) {
  const auto& [type, dim, have_coefficients, row_of, coefficient_of] = gradients;
  if (type != FloatType::kFloat32) {
    std::fill_n(sum, dim, kEmptySum);
    for (; begin < end; ++begin) {
      const float coefficient = have_coefficients ? coefficient_of(begin) : 1.0f;
      AddScaled(type, coefficient, row_of(begin), dim, sum);
    }
    return;
  }
  std::array<const float*, kBlockRows> rows;
  std::array<float, kBlockRows> coefficients;
  const float* so_far = nullptr;
  for (; begin < end; begin += kBlockRows) {
    const int64_t size = std::min(kBlockRows, end - begin);
    for (int64_t i = 0; i < size; ++i) {
      const auto at = static_cast<size_t>(i);
      rows[at] = static_cast<const float*>(row_of(begin + i));
      if (have_coefficients) coefficients[at] = coefficient_of(begin + i);
    }
    SumRows(rows.data(), have_coefficients ? coefficients.data() : nullptr, size, dim,
            {so_far, sum, 1, false, kEmptySum});
    so_far = sum;
  }
}

// Computes the sum of gradients [begin, end), more than kGradientsPerRun.
template <typename Gradients>
__attribute__((noinline)) static void SumRuns(const Gradients& gradients, int64_t begin,
                                              int64_t end, float* sum) {
  int64_t size = kGradientsPerRun;
  while (size * kGradientsPerRun < end - begin) size *= kGradientsPerRun;
  std::vector<float> part(static_cast<size_t>(gradients.dim));
  std::fill_n(sum, gradients.dim, kEmptySum);
  for (; begin < end; begin += size) {
    const int64_t end_of_part = std::min(begin + size, end);
    if (end_of_part - begin > kGradientsPerRun) {
      SumRuns(gradients, begin, end_of_part, part.data());
    } else {
      SumRun(gradients, begin, end_of_part, part.data());
    }
    AddScaled(1, part.data(), gradients.dim, sum);
  }
}

// Computes the sum of n > 0 gradients.
template <typename Gradients>
inline void SumGradients(const Gradients& gradients, int64_t n, float* sum) {
  if (n > kGradientsPerRun) return SumRuns(gradients, 0, n, sum);
  SumRun(gradients, 0, n, sum);
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_GRADIENTS_SUM_GRADIENTS_H_
