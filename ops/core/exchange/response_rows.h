// ResponseRows: the reply rows of a table in the received blocks.
#ifndef KERAS_SPARSE_OPS_CORE_EXCHANGE_RESPONSE_ROWS_H_
#define KERAS_SPARSE_OPS_CORE_EXCHANGE_RESPONSE_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/core/base/host_device.h"
#include "ops/core/exchange/exchange_layout.h"
#include "ops/core/exchange/message_format.h"
#include "ops/core/math/float_type.h"

namespace keras_sparse {

// Consecutive reply rows of one type.
struct ResponseRun {
  int64_t first_row;
  char* data;
  FloatType type;

  // Returns a row of the run.
  KERAS_SPARSE_HOST_DEVICE char* Row(int64_t row, int64_t num_columns) const {
    return data + (row - first_row) * num_columns * FloatBytes(type);
  }
};

// Returns the run of a row: the last one that begins with it or before it.
KERAS_SPARSE_HOST_DEVICE inline const ResponseRun& RunOf(const ResponseRun* runs, int64_t num_runs,
                                                         int64_t row) {
  int64_t found = 0;
  while (num_runs > 1) {
    const int64_t half = num_runs / 2;
    if (runs[found + half].first_row <= row) {
      found += half;
      num_runs -= half;
    } else {
      num_runs = half;
    }
  }
  return runs[found];
}

// Some columns of all reply rows of a table, in at least one run.
struct ResponseColumns {
  int64_t first_column = 0;
  int64_t num_columns = 0;
  std::vector<ResponseRun> runs;

  const ResponseRun& Run(int64_t row) const {
    return RunOf(runs.data(), static_cast<int64_t>(runs.size()), row);
  }
  // REQUIRES: kFloat32
  float* FloatRow(int64_t row) const {
    return reinterpret_cast<float*>(Run(row).Row(row, num_columns));
  }
};

// The blocks of all ranks: each contains the rows of its rank's parts, part by part.
class ResponseRows {
 public:
  //   reply_rows  (2, num_tables, num_ranks) as RowRequest writes them
  ResponseRows(const ExchangeLayout& layout, const int64_t* reply_rows);

  // In the block of each rank.
  const std::vector<int64_t>& num_floats() const { return num_floats_; }
  int64_t num_rows(size_t table) const { return num_rows_[table]; }
  // Returns the number of words in the reply of each rank, after the header.
  std::vector<int64_t> ReplyWords(FloatType wire_type) const;

  // Return the columns of each table, in as many pieces as ranks have.
  using Columns = std::vector<std::vector<ResponseColumns>>;
  // Of gradients that are sent back, which are floats of one type without gaps.
  //   blocks  (num_ranks) start of each rank's floats
  Columns GradientColumns(const std::vector<void*>& blocks, FloatType type) const;
  // Of replies, as ReplyFormat describes them.
  //   blocks  (num_ranks) start of each rank's words. Read-only, despite the type, because writers
  //           of gradients and readers of replies share one type
  Columns ReplyColumns(const std::vector<void*>& blocks, FloatType wire_type) const;

 private:
  // Calls do_slice(table, slice, rank) in the order of the blocks.
  template <typename DoSlice>
  void ForEachSlice(const DoSlice& do_slice) const;
  // Calls add_runs(table, rank, first_row, columns) for each slice, in the same order.
  template <typename AddRuns>
  Columns MakeColumns(const AddRuns& add_runs) const;
  int64_t rows(size_t table, size_t rank) const { return reply_rows_[At(table, rank)]; }
  int64_t single_rows(size_t table, size_t rank) const {
    return reply_rows_[At(layout_.tables.size() + table, rank)];
  }
  size_t At(size_t table, size_t rank) const { return table * layout_.num_ranks + rank; }

  const ExchangeLayout& layout_;
  const int64_t* reply_rows_;
  std::vector<int64_t> num_floats_;
  std::vector<int64_t> num_rows_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_EXCHANGE_RESPONSE_ROWS_H_
