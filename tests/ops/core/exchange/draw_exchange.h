// Lookups over ranks, drawn from a seed.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_EXCHANGE_DRAW_EXCHANGE_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_EXCHANGE_DRAW_EXCHANGE_H_

#include <algorithm>

#include "tests/ops/core/exchange/exchange_testing.h"

namespace keras_sparse {

// Tables, where they are, and ids for them.
class Draw {
 public:
  //   step  what all numbers of columns are a multiple of
  explicit Draw(uint64_t seed, int64_t step = 1) : random_(seed), step_(step) {}
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

  PlacedTable Table(int64_t num_ranks) {
    PlacedTable table;
    table.input_dim = Below(3) == 0 ? -1 : 1 + Below(40);
    table.dim = step_ * (1 + Below(20 / step_));
    table.by_rows = Below(3) == 0;
    table.max_entries = Below(2) == 0 ? 1 : 1 + Below(4);
    table.row_type = kFloatTypes[Below(3)];
    std::vector<int64_t> ranks = Range(0, num_ranks);
    std::shuffle(ranks.begin(), ranks.end(), random_);
    const int64_t num_slices = 1 + Below(std::min(num_ranks, table.dim / step_));
    int64_t left = table.dim;
    for (int64_t s = 0; s < num_slices; ++s) {
      const int64_t rest = num_slices - s - 1;
      table.ranks.push_back(ranks[static_cast<size_t>(s)]);
      table.columns.push_back(rest == 0 ? left : step_ * (1 + Below(left / step_ - rest)));
      left -= table.columns.back();
    }
    return table;
  }

  // `kind` decides what must be the same on all ranks.
  Ids Input(const PlacedTable& table, size_t number, uint64_t kind, uint64_t seed) {
    Ids ids;
    ids.table = number;
    ids.combiner = static_cast<Combiner>(kind % 4);
    ids.splits = RandomSplits(Below(30), 1 + Below(12), seed);
    const int64_t n = ids.splits.back();
    ids.ids = table.input_dim < 0 ? RandomIds(n, -20, 20, seed)
                                  : RandomIds(n, 0, table.input_dim - 1, seed);
    if (ids.combiner == Combiner::kNone) ids.splits.clear();
    // Positive: a divisor near zero would make any rounding large.
    if (ids.combiner != Combiner::kNone && kind / 4 % 3 == 0) {
      ids.weights = RandomFloats(n, seed + 1);
      for (float& weight : ids.weights) weight += 2;
    }
    return ids;
  }

  std::vector<PlacedTable> Tables(size_t num_tables, int64_t num_ranks) {
    std::vector<PlacedTable> tables;
    while (tables.size() < num_tables) tables.push_back(Table(num_ranks));
    return tables;
  }

  // Of each rank; each table has one at least.
  std::vector<std::vector<Ids>> Inputs(const std::vector<PlacedTable>& tables, int64_t num_ranks,
                                       uint64_t seed) {
    std::vector<std::vector<Ids>> inputs(static_cast<size_t>(num_ranks));
    const int64_t num_inputs = static_cast<int64_t>(tables.size()) + Below(3);
    for (int64_t i = 0; i < num_inputs; ++i) {
      const auto number = static_cast<size_t>(i) % tables.size();
      const auto kind = static_cast<uint64_t>(Below(1000));
      for (auto& rank : inputs) {
        rank.push_back(Input(tables[number], number, kind, seed * 100 + rank.size()));
      }
    }
    return inputs;
  }

 private:
  std::mt19937_64 random_;
  const int64_t step_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_EXCHANGE_DRAW_EXCHANGE_H_
