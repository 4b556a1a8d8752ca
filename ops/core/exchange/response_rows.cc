#include "ops/core/exchange/response_rows.h"

#include "ops/core/exchange/reply_format.h"

namespace keras_sparse {
namespace {

// Appends a run without rows only if it is the first one, and joins runs that are one in memory.
void AppendRun(const ResponseRun& run, int64_t num_rows, ResponseColumns* columns) {
  if (!columns->runs.empty()) {
    const ResponseRun& last = columns->runs.back();
    const bool continues =
        last.type == run.type && last.Row(run.first_row, columns->num_columns) == run.data;
    if (num_rows == 0 || continues) return;
    if (last.first_row == run.first_row) columns->runs.pop_back();
  }
  columns->runs.push_back(run);
}

}  // namespace

template <typename DoSlice>
void ResponseRows::ForEachSlice(const DoSlice& do_slice) const {
  for (size_t t = 0; t < layout_.tables.size(); ++t) {
    for (const ExchangedSlice& slice : layout_.tables[t].slices) {
      do_slice(t, slice, static_cast<size_t>(slice.rank));
    }
  }
}

ResponseRows::ResponseRows(const ExchangeLayout& layout, const int64_t* reply_rows)
    : layout_(layout),
      reply_rows_(reply_rows),
      num_floats_(layout.num_ranks),
      num_rows_(layout.tables.size()) {
  ForEachSlice([&](size_t t, const ExchangedSlice& slice, size_t rank) {
    num_floats_[rank] += rows(t, rank) * slice.num_columns;
    num_rows_[t] = rows(t, rank) + (layout.tables[t].by_rows ? num_rows_[t] : 0);
  });
}

std::vector<int64_t> ResponseRows::ReplyWords(FloatType wire_type) const {
  std::vector<int64_t> words(layout_.num_ranks);
  ForEachSlice([&](size_t t, const ExchangedSlice& slice, size_t rank) {
    const ReplyFormat format(layout_.tables[t], slice.num_columns, wire_type);
    const int64_t num_single = single_rows(t, rank);
    words[rank] += format.RowWords(num_single) + format.SumWords(rows(t, rank) - num_single);
  });
  return words;
}

template <typename AddRuns>
ResponseRows::Columns ResponseRows::MakeColumns(const AddRuns& add_runs) const {
  Columns columns(layout_.tables.size());
  std::vector<int64_t> first_rows(layout_.tables.size());
  ForEachSlice([&](size_t t, const ExchangedSlice& slice, size_t rank) {
    const bool by_rows = layout_.tables[t].by_rows;
    if (!by_rows || columns[t].empty()) {
      columns[t].push_back({slice.first_column, slice.num_columns, {}});
    }
    add_runs(t, rank, first_rows[t], &columns[t].back());
    if (by_rows) first_rows[t] += rows(t, rank);
  });
  return columns;
}

ResponseRows::Columns ResponseRows::GradientColumns(const std::vector<void*>& blocks,
                                                    FloatType type) const {
  std::vector<void*> next = blocks;
  return MakeColumns([&](size_t t, size_t rank, int64_t first_row, ResponseColumns* columns) {
    auto* data = static_cast<char*>(next[rank]);
    AppendRun({first_row, data, type}, rows(t, rank), columns);
    next[rank] = data + rows(t, rank) * columns->num_columns * FloatBytes(type);
  });
}

ResponseRows::Columns ResponseRows::ReplyColumns(const std::vector<void*>& blocks,
                                                 FloatType wire_type) const {
  std::vector<void*> next = blocks;
  return MakeColumns([&](size_t t, size_t rank, int64_t first_row, ResponseColumns* columns) {
    const ReplyFormat format(layout_.tables[t], columns->num_columns, wire_type);
    const int64_t num_single = single_rows(t, rank);
    const int64_t num_sums = rows(t, rank) - num_single;
    auto* words = static_cast<Word*>(next[rank]);
    AppendRun({first_row, reinterpret_cast<char*>(words), format.row_type()}, num_single, columns);
    words += format.RowWords(num_single);
    AppendRun({first_row + num_single, reinterpret_cast<char*>(words), format.sum_type()}, num_sums,
              columns);
    next[rank] = words + format.SumWords(num_sums);
  });
}

}  // namespace keras_sparse
