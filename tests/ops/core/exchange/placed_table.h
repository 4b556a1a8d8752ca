// Tables that are spread over ranks, and the layout of an exchange of them.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_EXCHANGE_PLACED_TABLE_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_EXCHANGE_PLACED_TABLE_H_

#include <utility>

#include "ops/core/exchange/exchange_layout.h"
#include "tests/ops/core/support/testing.h"

namespace keras_sparse {

// A table and where it is: `ranks` and `columns` of its slices, or by rows.
struct PlacedTable {
  int64_t input_dim;  // -1 for a dynamic one
  int64_t dim;
  std::vector<int64_t> ranks;
  std::vector<int64_t> columns;
  bool by_rows = false;
  bool out_of_range_is_zero = false;
  int64_t max_entries = 1;
  FloatType row_type = FloatType::kFloat32;
};

inline std::vector<int64_t> LayoutNumbers(const std::vector<PlacedTable>& tables, int64_t num_ranks,
                                          int64_t rank) {
  std::vector<int64_t> numbers = {num_ranks, rank};
  for (const PlacedTable& table : tables) {
    std::vector<std::pair<int64_t, int64_t>> slices;
    for (int64_t r = 0; table.by_rows && r < num_ranks; ++r) slices.push_back({r, table.dim});
    for (size_t s = 0; !table.by_rows && s < table.ranks.size(); ++s) {
      slices.push_back({table.ranks[s], table.columns[s]});
    }
    for (const int64_t number :
         {table.input_dim, table.dim, int64_t{table.out_of_range_is_zero}, int64_t{table.by_rows},
          table.max_entries, static_cast<int64_t>(slices.size())}) {
      numbers.push_back(number);
    }
    for (const auto& [slice_rank, num_columns] : slices) {
      numbers.push_back(slice_rank);
      numbers.push_back(num_columns);
    }
  }
  return numbers;
}

inline ExchangeLayout Layout(const std::vector<PlacedTable>& tables, int64_t num_ranks,
                             int64_t rank, const std::string& exchange = "exchange",
                             const std::string& table_name = "table") {
  std::vector<std::string> names;
  for (size_t t = 0; t < tables.size(); ++t) names.push_back(table_name + std::to_string(t));
  std::vector<FloatType> row_types;
  for (const PlacedTable& table : tables) row_types.push_back(table.row_type);
  ExchangeLayout layout;
  EXPECT_TRUE(IsOk(ExchangeLayout::Read(LayoutNumbers(tables, num_ranks, rank), names, exchange,
                                        row_types, &layout)));
  return layout;
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_EXCHANGE_PLACED_TABLE_H_
