// The rows that a rank serves to others, as tensors.
#ifndef KERAS_SPARSE_OPS_TF_EXCHANGE_SERVED_ROW_TENSORS_H_
#define KERAS_SPARSE_OPS_TF_EXCHANGE_SERVED_ROW_TENSORS_H_

#include <cstdint>
#include <vector>

#include "ops/core/exchange/gathered_rows.h"
#include "ops/tf/exchange/exchange_inputs.h"
#include "ops/tf/exchange/exchange_place.h"

namespace keras_sparse {

// The own parts of a layout: their tables, and whether each has an input with a combiner.
struct LocalSlices {
  std::vector<EmbeddingTable*> tables;
  std::vector<bool> pools;

  // Returns InvalidArgument unless `handles` are tables of the layout's own parts.
  absl::Status Check(const ExchangeLayout& layout, const TableList& handles);
};

// The requested rows.
struct ServedIds {
  tf::Tensor served_rows;  // (num_parts, num_ranks) number of rows of each
  // One of each per part.
  std::vector<tf::Tensor> ids;
  std::vector<tf::Tensor> row_splits;

  absl::Status Make(const ExchangeLayout& layout, const GatheredRows& served,
                    const std::vector<bool>& pools);
  std::vector<const int64_t*> id_pointers() const;
  // Sets the outputs `served_rows`, `ids` and `row_splits` of KerasSparseServeRows, of which the
  // first one is `output`.
  void SetOutputs(tf::OpKernelContext* ctx, int output) const;
};

// Reads the rows into blocks for the ranks that requested them.
//   blocks  in the memory of the place
Status MakeReply(const ExchangeLayout& layout, FloatType wire_type, const GatheredRows& served,
                 const LocalSlices& parts, const ServedIds& ids, ExchangePlace* place,
                 BlockOutputs* blocks, std::vector<int64_t>* versions = nullptr,
                 std::vector<uint32_t>* num_updates = nullptr);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_EXCHANGE_SERVED_ROW_TENSORS_H_
