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

// Adds gradients [begin, end) of float32 in order. Inlined: most rows with several have two or
// three, for which a call is a twentieth of the time.
//   sum  (dim)
template <typename Gradients>
__attribute__((always_inline)) inline void SumFloats(const Gradients& gradients, int64_t begin,
                                                     int64_t end, float* sum) {
  std::array<const float*, kBlockRows> rows;
  std::array<float, kBlockRows> coefficients;
  const float* so_far = nullptr;
  for (; begin < end; begin += kBlockRows) {
    const int64_t size = std::min(kBlockRows, end - begin);
    for (int64_t i = 0; i < size; ++i) {
      const auto at = static_cast<size_t>(i);
      rows[at] = static_cast<const float*>(gradients.row_of(begin + i));
      if (gradients.have_coefficients) coefficients[at] = gradients.coefficient_of(begin + i);
    }
    SumRows(rows.data(), gradients.have_coefficients ? coefficients.data() : nullptr, size,
            gradients.dim, {so_far, sum, 1, false, kEmptySum});
    so_far = sum;
  }
}

// Computes the sum of gradients [begin, end); there is at least one.
template <typename Gradients>
inline void SumGradients(const Gradients& gradients, int64_t begin, int64_t end, float* sum) {
  const int64_t dim = gradients.dim;
  if (end - begin <= kGradientsPerRun) {
    if (gradients.type == FloatType::kFloat32) return SumFloats(gradients, begin, end, sum);
    std::fill_n(sum, dim, kEmptySum);
    for (; begin < end; ++begin) {
      const float factor = gradients.have_coefficients ? gradients.coefficient_of(begin) : 1.0f;
      AddScaled(gradients.type, factor, gradients.row_of(begin), dim, sum);
    }
    return;
  }
  int64_t length = kGradientsPerRun;
  while (length * kGradientsPerRun < end - begin) length *= kGradientsPerRun;
  std::vector<float> run(static_cast<size_t>(dim));
  std::fill_n(sum, dim, kEmptySum);
  for (; begin < end; begin += length) {
    SumGradients(gradients, begin, std::min(begin + length, end), run.data());
    AddScaled(1, run.data(), dim, sum);
  }
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_GRADIENTS_SUM_GRADIENTS_H_
