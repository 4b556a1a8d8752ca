#include "ops/core/exchange/response_rows.h"

namespace keras_sparse {

ResponseRows::ResponseRows(const ExchangeLayout& layout, const int64_t* reply_rows)
    : layout_(layout),
      reply_rows_(reply_rows),
      num_floats_(layout.num_ranks),
      num_rows_(layout.tables.size()) {
  for (size_t t = 0; t < layout.tables.size(); ++t) {
    const ExchangedTable& table = layout.tables[t];
    const int64_t* rows = reply_rows + t * layout.num_ranks;
    for (const ExchangedSlice& slice : table.slices) {
      num_floats_[static_cast<size_t>(slice.rank)] += rows[slice.rank] * slice.num_columns;
      num_rows_[t] = rows[slice.rank] + (table.by_rows ? num_rows_[t] : 0);
    }
  }
}

std::vector<std::vector<ResponseColumns>> ResponseRows::Columns(const std::vector<void*>& blocks,
                                                                FloatType type) const {
  std::vector<std::vector<ResponseColumns>> columns(layout_.tables.size());
  std::vector<char*> next;
  next.reserve(blocks.size());
  for (void* block : blocks) next.push_back(static_cast<char*>(block));
  for (size_t t = 0; t < layout_.tables.size(); ++t) {
    const ExchangedTable& table = layout_.tables[t];
    const int64_t* rows = reply_rows_ + t * layout_.num_ranks;
    int64_t first_row = 0;
    for (const ExchangedSlice& slice : table.slices) {
      if (!table.by_rows || columns[t].empty()) {
        columns[t].push_back({slice.first_column, slice.num_columns, type, {}, {}});
      }
      const auto rank = static_cast<size_t>(slice.rank);
      columns[t].back().first_rows.push_back(first_row);
      columns[t].back().runs.push_back(next[rank]);
      next[rank] += rows[slice.rank] * slice.num_columns * FloatBytes(type);
      if (table.by_rows) first_row += rows[slice.rank];
    }
  }
  return columns;
}

}  // namespace keras_sparse
