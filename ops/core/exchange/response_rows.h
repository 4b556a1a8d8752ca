// ResponseRows: the reply rows of a table in the received blocks.
#ifndef KERAS_SPARSE_OPS_CORE_EXCHANGE_RESPONSE_ROWS_H_
#define KERAS_SPARSE_OPS_CORE_EXCHANGE_RESPONSE_ROWS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/core/exchange/exchange_layout.h"
#include "ops/core/math/float_type.h"

namespace keras_sparse {

// Some columns of all reply rows of a table, in one run, or by rows in one run per shard.
struct ResponseColumns {
  int64_t first_column = 0;
  int64_t num_columns = 0;
  FloatType type{};
  std::vector<int64_t> first_rows;  // of each run
  std::vector<void*> runs;

  // REQUIRES: kFloat32
  float* Row(int64_t row) const {
    size_t run = 0;
    if (runs.size() > 1) {
      const auto after = std::upper_bound(first_rows.begin(), first_rows.end(), row);
      run = static_cast<size_t>(after - first_rows.begin()) - 1;
    }
    return static_cast<float*>(runs[run]) + (row - first_rows[run]) * num_columns;
  }
};

// The blocks of all ranks, as floats: each contains the rows of its rank's parts, part by part.
// Replies of a lookup have this layout, as do the gradients that are sent back.
class ResponseRows {
 public:
  //   reply_rows  (num_tables, num_ranks) as RowRequest writes them
  ResponseRows(const ExchangeLayout& layout, const int64_t* reply_rows);

  // In the block of each rank.
  const std::vector<int64_t>& num_floats() const { return num_floats_; }
  int64_t num_rows(size_t table) const { return num_rows_[table]; }

  // Returns the columns of each table, in as many pieces as ranks have.
  //   blocks  (num_ranks) start of each rank's floats
  std::vector<std::vector<ResponseColumns>> Columns(const std::vector<void*>& blocks,
                                                    FloatType type) const;
  std::vector<std::vector<ResponseColumns>> Columns(const std::vector<float*>& floats) const {
    return Columns({floats.begin(), floats.end()}, FloatType::kFloat32);
  }

 private:
  const ExchangeLayout& layout_;
  const int64_t* reply_rows_;
  std::vector<int64_t> num_floats_;
  std::vector<int64_t> num_rows_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_EXCHANGE_RESPONSE_ROWS_H_
