// ReplyFormat: the floats of one part in a reply.
#ifndef KERAS_SPARSE_OPS_CORE_EXCHANGE_REPLY_FORMAT_H_
#define KERAS_SPARSE_OPS_CORE_EXCHANGE_REPLY_FORMAT_H_

#include <cstdint>

#include "ops/core/exchange/exchange_layout.h"
#include "ops/core/exchange/wire_dtype.h"
#include "ops/core/math/float_type.h"

namespace keras_sparse {

// A part's rows come first, then the sums of its bags; both begin at a whole word. Rows of 16 bits
// travel as they are stored, which loses nothing. Rows in float32 and all sums have the type of the
// wire, as gradients do.
class ReplyFormat {
 public:
  ReplyFormat(const ExchangedTable& table, int64_t num_columns, FloatType wire_type)
      : row_type_(table.row_type == FloatType::kFloat32 ? wire_type : table.row_type),
        sum_type_(wire_type),
        num_columns_(num_columns) {}

  FloatType row_type() const { return row_type_; }
  FloatType sum_type() const { return sum_type_; }

  // The words of n rows, and of n sums.
  int64_t RowWords(int64_t n) const { return FloatWords(row_type_, n * num_columns_); }
  int64_t SumWords(int64_t n) const { return FloatWords(sum_type_, n * num_columns_); }

 private:
  FloatType row_type_;
  FloatType sum_type_;
  int64_t num_columns_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_EXCHANGE_REPLY_FORMAT_H_
