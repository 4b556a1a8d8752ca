#include "ops/core/exchange/return_gradients.h"

#include <algorithm>
#include <cstring>

#include "ops/core/gradients/sum_gradients.h"
#include "ops/core/math/prefetch.h"
#include "ops/core/math/vector_math.h"

namespace keras_sparse {
namespace {

constexpr int64_t kNanosecondsPerReturnedTable = 100000;
constexpr int64_t kRowsPerRun = 512;
constexpr int64_t kNanosecondsPerGradient = 30;
constexpr int64_t kNanosecondsPerCopy = 50000;

// The uses of a table's reply rows: row j has uses [first[j], first[j + 1]), in the order of
// inputs.
struct Uses {
  std::vector<uint32_t> first;
  std::vector<const void*> grads;   // of the output of each use
  std::vector<float> coefficients;  // factors; empty if all are 1
  FloatType type{};                 // of grads

  // Returns the gradient starting with a column.
  const void* Grad(size_t use, int64_t column) const {
    return GradientRows(grads[use], 0, type).From(column).data;
  }
};

bool HasCoefficients(const CombinedInput& input) {
  return input.bags.weights != nullptr || input.bags.scales != nullptr;
}

// Calls use(position, grads, coefficient) for each use of a reply row in an input.
template <typename Use>
void ForEachUse(const CombinedInput& input, const GradientRows& grads, const Use& use) {
  const Bags& bags = input.bags;
  if (bags.combiner == Combiner::kNone) {
    for (int64_t i = 0; i < bags.num_ids; ++i) use(input.positions[i], grads.Row(i), 1.0f);
    return;
  }
  for (int64_t b = 0; b < bags.num_bags; ++b) {
    const float scale = bags.Scale(b);
    for (int64_t i = bags.row_splits[b]; i < bags.row_splits[b + 1]; ++i) {
      use(input.positions[i], grads.Row(b),
          bags.weights == nullptr ? scale : scale * bags.weights[i]);
    }
  }
}

Uses FindUses(const std::vector<CombinedInput>& inputs,
              const std::vector<GradientRows>& output_grads, size_t table, int64_t num_rows,
              int64_t dim) {
  Uses uses;
  uses.first.assign(static_cast<size_t>(num_rows) + 1, 0);
  bool has_coefficients = false;
  for (const CombinedInput& input : inputs) {
    if (input.table != table) continue;
    has_coefficients |= HasCoefficients(input);
    for (int64_t i = 0; i < input.bags.num_ids; ++i) ++uses.first[input.positions[i] + 1];
  }
  for (size_t j = 1; j < uses.first.size(); ++j) uses.first[j] += uses.first[j - 1];
  uses.grads.resize(uses.first.back());
  if (has_coefficients) uses.coefficients.resize(uses.first.back());
  std::vector<uint32_t> next(uses.first.begin(), uses.first.end() - 1);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].table != table) continue;
    uses.type = output_grads[i].type;
    ForEachUse(inputs[i], output_grads[i].Of(dim),
               [&](uint32_t position, const void* grads, float coefficient) {
                 const uint32_t at = next[position]++;
                 uses.grads[at] = grads;
                 if (has_coefficients) uses.coefficients[at] = coefficient;
               });
  }
  return uses;
}

// Computes sum = scale times the gradients of uses [begin, end), restricted to these columns.
void Sum(const Uses& uses, size_t begin, size_t end, const ResponseColumns& columns, float scale,
         float* sum) {
  const bool are_floats = uses.type == FloatType::kFloat32;
  if (are_floats && end - begin == 1 && uses.coefficients.empty()) {  // most rows of a batch
    const auto* grad = static_cast<const float*>(uses.Grad(begin, columns.first_column));
    for (int64_t c = 0; c < columns.num_columns; ++c) sum[c] = scale * grad[c];
    return;
  }
  if (begin == end) return static_cast<void>(std::fill_n(sum, columns.num_columns, 0 * scale));
  SumGradients(RowGradients{uses.type, columns.num_columns, !uses.coefficients.empty(),
                            [&](int64_t i) {
                              return uses.Grad(static_cast<size_t>(i), columns.first_column);
                            },
                            [&](int64_t i) { return uses.coefficients[static_cast<size_t>(i)]; }},
               static_cast<int64_t>(begin), static_cast<int64_t>(end), sum);
  if (scale != 1) Scale(scale, columns.num_columns, sum);
}

// Some reply rows of a table.
struct GradientRun {
  size_t table;
  int64_t begin;
  int64_t end;
};

void SumRun(const Uses& uses, const std::vector<ResponseColumns>& columns, const GradientRun& run,
            float scale) {
  for (const ResponseColumns& each : columns) {
    size_t prefetched = uses.first[static_cast<size_t>(run.begin)];
    for (int64_t j = run.begin; j < run.end; ++j) {
      const auto row = static_cast<size_t>(j);
      const size_t ahead = std::min<size_t>(uses.first[row + 1] + kBlockRows, uses.grads.size());
      for (; prefetched < ahead; ++prefetched) {
        PrefetchBytes(uses.Grad(prefetched, each.first_column),
                      FloatBytes(uses.type) * each.num_columns);
      }
      Sum(uses, uses.first[row], uses.first[row + 1], each, scale, each.FloatRow(j));
    }
  }
}

}  // namespace

void ReturnGradients(const ExchangeLayout& layout, const ResponseRows& rows,
                     const std::vector<CombinedInput>& inputs,
                     const std::vector<GradientRows>& output_grads, float scale,
                     const std::vector<std::vector<ResponseColumns>>& columns, Executor* executor) {
  std::vector<Uses> uses(layout.tables.size());
  executor->ParallelFor(static_cast<int64_t>(uses.size()), kNanosecondsPerReturnedTable,
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i) {
                            const auto t = static_cast<size_t>(i);
                            uses[t] = FindUses(inputs, output_grads, t, rows.num_rows(t),
                                               layout.tables[t].dim);
                          }
                        });
  std::vector<GradientRun> runs;
  for (size_t t = 0; t < uses.size(); ++t) {
    for (int64_t begin = 0; begin < rows.num_rows(t); begin += kRowsPerRun) {
      runs.push_back({t, begin, std::min(begin + kRowsPerRun, rows.num_rows(t))});
    }
  }
  executor->ParallelFor(static_cast<int64_t>(runs.size()), kRowsPerRun * kNanosecondsPerGradient,
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i) {
                            const GradientRun& run = runs[static_cast<size_t>(i)];
                            SumRun(uses[run.table], columns[run.table], run, scale);
                          }
                        });
}

void GatherGradients(const ExchangeLayout& layout, const std::vector<const float*>& floats,
                     const int64_t* served_rows, const std::vector<float*>& grads,
                     Executor* executor) {
  struct Copy {
    const float* from;
    float* to;
    int64_t floats;
  };
  std::vector<Copy> copies;
  std::vector<const float*> next = floats;
  for (size_t p = 0; p < layout.own_parts().size(); ++p) {
    float* to = grads[p];
    for (size_t r = 0; r < layout.num_ranks; ++r) {
      const int64_t n = *served_rows++ * layout.slice(layout.own_parts()[p]).num_columns;
      if (n > 0) copies.push_back({next[r], to, n});
      next[r] += n;
      to += n;
    }
  }
  executor->ParallelFor(
      static_cast<int64_t>(copies.size()), kNanosecondsPerCopy, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const Copy& copy = copies[static_cast<size_t>(i)];
          std::memcpy(copy.to, copy.from, sizeof(float) * static_cast<size_t>(copy.floats));
        }
      });
}

}  // namespace keras_sparse
