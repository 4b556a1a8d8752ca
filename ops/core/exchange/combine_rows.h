// The end of a lookup over ranks: outputs of the inputs from the rows that came.
#ifndef KERAS_SPARSE_OPS_CORE_EXCHANGE_COMBINE_ROWS_H_
#define KERAS_SPARSE_OPS_CORE_EXCHANGE_COMBINE_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/exchange/exchange_layout.h"
#include "ops/core/exchange/reply_rows.h"
#include "ops/core/ids/bags.h"
#include "ops/core/math/strided_rows.h"

namespace keras_sparse {

// How an input uses the reply rows of its table, as RowRequest says it.
struct CombinedInput {
  size_t table;
  const uint32_t* positions;  // (bags.num_ids) of reply rows
  // kNone, or kSum over positions; with weights the combiner itself.
  Bags bags;
  const float* scales;  // (num_bags) what a sum is multiplied with; null for bags.Scale()

  float Scale(int64_t bag) const { return scales == nullptr ? bags.Scale(bag) : scales[bag]; }
};

// InvalidArgument unless tables are those of the layout, bags well-formed and positions below the
// number of the table's reply rows.
Status CheckInputs(const ExchangeLayout& layout, const ReplyRows& rows,
                   const std::vector<CombinedInput>& inputs);

// Fills the output of each input.
//   columns  one list a table, as ReplyRows gives them
//   outputs  (num_inputs) each (num_bags, dim)
// REQUIRES: CheckInputs
void CombineRows(const ExchangeLayout& layout,
                 const std::vector<std::vector<ReplyColumns>>& columns,
                 const std::vector<CombinedInput>& inputs, const std::vector<OutputRows>& outputs,
                 Executor* executor);

// The gradient with respect to the weights of inputs that have them.
//   output_grads  (num_inputs) each (num_bags, dim)
//   weight_grads  (num_inputs) each (num_ids)
// REQUIRES: CheckInputs
void CombineWeightsGradient(const ExchangeLayout& layout,
                            const std::vector<std::vector<ReplyColumns>>& columns,
                            const std::vector<CombinedInput>& inputs,
                            const std::vector<GradientRows>& output_grads,
                            const std::vector<float*>& weight_grads, Executor* executor);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_EXCHANGE_COMBINE_ROWS_H_
