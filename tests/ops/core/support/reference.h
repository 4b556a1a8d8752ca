// The plainest way to pool and to merge, in double precision.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_REFERENCE_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_REFERENCE_H_

#include <cmath>
#include <functional>
#include <map>

#include "ops/core/ids/bags.h"
#include "ops/core/math/strided_rows.h"
#include "tests/ops/core/support/testing.h"

namespace keras_sparse {

inline double ReferenceWeight(const Bags& bags, int64_t i) {
  return bags.weights == nullptr ? 1 : double{bags.weights[i]};
}

inline double ReferenceScale(const Bags& bags, int64_t bag) {
  double sum = 0;
  double squares = 0;
  for (int64_t i = bags.row_splits[bag]; i < bags.row_splits[bag + 1]; ++i) {
    sum += ReferenceWeight(bags, i);
    squares += ReferenceWeight(bags, i) * ReferenceWeight(bags, i);
  }
  if (bags.combiner == Combiner::kSum) return 1;
  if (bags.combiner == Combiner::kMean) return sum == 0 ? 0 : 1 / sum;
  return squares == 0 ? 0 : 1 / std::sqrt(squares);
}

// bags x dim
inline std::vector<double> ReferencePool(
    const std::function<std::vector<float>(int64_t id)>& row_of, const std::vector<int64_t>& ids,
    const Bags& bags, int64_t dim) {
  std::vector<double> pooled(static_cast<size_t>(bags.num_bags * dim));
  for (int64_t b = 0; b < bags.num_bags; ++b) {
    const double scale = ReferenceScale(bags, b);
    for (int64_t i = bags.row_splits[b]; i < bags.row_splits[b + 1]; ++i) {
      const std::vector<float> row = row_of(ids[static_cast<size_t>(i)]);
      for (int64_t j = 0; j < dim; ++j) {
        pooled[static_cast<size_t>(b * dim + j)] +=
            scale * ReferenceWeight(bags, i) * row[static_cast<size_t>(j)];
      }
    }
  }
  return pooled;
}

// d loss / d row of each id.
inline std::map<int64_t, std::vector<double>> ReferenceMerge(const std::vector<int64_t>& ids,
                                                             const Bags& bags,
                                                             const std::vector<float>& grads,
                                                             int64_t dim) {
  std::map<int64_t, std::vector<double>> merged;
  const bool pools = bags.combiner != Combiner::kNone;
  for (int64_t b = 0; b < bags.num_bags; ++b) {
    const double scale = pools ? ReferenceScale(bags, b) : 1;
    const int64_t begin = pools ? bags.row_splits[b] : b;
    const int64_t end = pools ? bags.row_splits[b + 1] : b + 1;
    for (int64_t i = begin; i < end; ++i) {
      auto& sum = merged[ids[static_cast<size_t>(i)]];
      sum.resize(static_cast<size_t>(dim));
      for (int64_t j = 0; j < dim; ++j) {
        sum[static_cast<size_t>(j)] += scale * (pools ? ReferenceWeight(bags, i) : 1) *
                                       grads[static_cast<size_t>(b * dim + j)];
      }
    }
  }
  return merged;
}

inline void ExpectNear(const std::vector<float>& values, const std::vector<double>& expected,
                       double tolerance) {
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const double allowed = tolerance * (1 + std::abs(expected[i]));
    if (std::abs(values[i] - expected[i]) <= allowed) continue;  // faster than GoogleTest's
    ASSERT_NEAR(values[i], expected[i], allowed) << "at " << i;
  }
}

constexpr FloatType kFloatTypes[] = {FloatType::kFloat32, FloatType::kFloat16,
                                     FloatType::kBFloat16};

// Rows as a tensor of a type has them in its columns [first, first + dim) of `stride`. All other
// bytes are kUnused.
constexpr char kUnused = 0x77;
inline std::vector<char> Placed(FloatType type, const std::vector<float>& rows, int64_t dim,
                                int64_t first, int64_t stride) {
  const int64_t num_rows = static_cast<int64_t>(rows.size()) / dim;
  std::vector<char> bytes(static_cast<size_t>(num_rows * stride * FloatBytes(type)), kUnused);
  const OutputRows placed = OutputRows(bytes.data(), stride, type).From(first);
  for (int64_t i = 0; i < num_rows; ++i) {
    WriteFloats(type, rows.data() + i * dim, dim, placed.Row(i));
  }
  return bytes;
}

// What is left of floats that have been of a type.
inline std::vector<float> Rounded(FloatType type, std::vector<float> floats) {
  const auto n = static_cast<int64_t>(floats.size());
  const std::vector<char> bytes = Placed(type, floats, 1, 0, 1);
  ReadFloats(type, bytes.data(), n, floats.data());
  return floats;
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_REFERENCE_H_
