// The plainest way to pool and to merge.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_REFERENCE_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_REFERENCE_H_

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>

#include "ops/core/gradients/output_gradient.h"
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

// The sum of a row's gradients as kGradientsPerRun defines it, in float32: runs are replaced by
// their sums until one is left.
inline float SumOfRuns(std::vector<float> items) {
  do {
    std::vector<float> sums;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i % kGradientsPerRun == 0) sums.push_back(kEmptySum);
      sums.back() += items[i];
    }
    items = sums;
  } while (items.size() > 1);
  return items[0];
}

// The bits of the gradient of each id: of lookups one after the other that share rows.
inline std::map<int64_t, std::vector<uint32_t>> MergedBits(
    const std::vector<OutputGradient>& gradients) {
  const int64_t dim = gradients[0].dim;
  std::map<int64_t, std::vector<std::vector<float>>> summands;  // by id and column
  for (const OutputGradient& each : gradients) {
    const Bags& bags = each.bags;
    const bool pools = bags.combiner != Combiner::kNone;
    RowsAsFloats rows(each.grads, dim);
    for (int64_t b = 0; b < bags.num_bags; ++b) {
      const float* row = rows.Row(b);
      const float scale = pools ? bags.Scale(b) : 1;
      const int64_t end = pools ? bags.row_splits[b + 1] : b + 1;
      for (int64_t i = pools ? bags.row_splits[b] : b; i < end; ++i) {
        std::vector<std::vector<float>>& of_id = summands[each.ids[i]];
        of_id.resize(static_cast<size_t>(dim));
        const float factor = bags.weights == nullptr ? scale : scale * bags.weights[i];
        for (size_t j = 0; j < of_id.size(); ++j) of_id[j].push_back(factor * row[j]);
      }
    }
  }
  std::map<int64_t, std::vector<uint32_t>> merged;
  for (const auto& [id, columns] : summands) {
    for (const auto& column : columns) merged[id].push_back(Bits({SumOfRuns(column)})[0]);
  }
  return merged;
}

// Ids in [0, 10), of which some occur about as often as runs of gradients end.
inline std::vector<int64_t> FrequentIds() {
  std::vector<int64_t> ids = RandomIds(100, 8, 9, 1);
  int64_t id = 0;
  for (const size_t n : {1, 255, 256, 257, 512, 513, 65536, 70000}) ids.insert(ids.end(), n, id++);
  std::shuffle(ids.begin(), ids.end(), std::mt19937_64(2));
  return ids;
}

// Random gradients, with zeros of both signs among them.
inline std::vector<float> GradientsWithZeros(int64_t num_floats) {
  std::vector<float> grads = RandomFloats(num_floats, 5);
  for (size_t i = 0; i < grads.size(); i += 3) grads[i] = i % 2 == 0 ? -0.0f : 0.0f;
  return grads;
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
