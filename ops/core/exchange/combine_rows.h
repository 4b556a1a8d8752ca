// CombineRows: computes the outputs of a lookup over ranks from the received rows.
#ifndef KERAS_SPARSE_OPS_CORE_EXCHANGE_COMBINE_ROWS_H_
#define KERAS_SPARSE_OPS_CORE_EXCHANGE_COMBINE_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/device/device.h"
#include "ops/core/exchange/exchange_layout.h"
#include "ops/core/exchange/response_rows.h"
#include "ops/core/ids/bags.h"
#include "ops/core/math/strided_rows.h"

namespace keras_sparse {

// How an input uses the reply rows of its table, as RowRequest wrote it.
struct CombinedInput {
  size_t table;
  const uint32_t* positions;  // (bags.num_ids) numbers of reply rows
  // Bags of positions. A position may refer to a sum of several ids, so bags with a combiner and
  // without weights have scales.
  Bags bags;
};

// Returns InvalidArgument unless tables are those of the layout, bags are well-formed and positions
// are below the number of the table's reply rows.
Status CheckInputs(const ExchangeLayout& layout, const ResponseRows& rows,
                   const std::vector<CombinedInput>& inputs);

// Writes the output of each input.
//   columns  one list per table, as ResponseRows returns them
//   outputs  (num_inputs) each (num_bags, dim)
// REQUIRES: CheckInputs returned OK
void CombineRows(const ExchangeLayout& layout,
                 const std::vector<std::vector<ResponseColumns>>& columns,
                 const std::vector<CombinedInput>& inputs, const std::vector<OutputRows>& outputs,
                 Executor* executor);

// Computes the gradient with respect to the weights of inputs that have weights.
//   output_grads  (num_inputs) each (num_bags, dim)
//   weight_grads  (num_inputs) each (num_ids)
// REQUIRES: CheckInputs returned OK
void CombineWeightsGradient(const ExchangeLayout& layout,
                            const std::vector<std::vector<ResponseColumns>>& columns,
                            const std::vector<CombinedInput>& inputs,
                            const std::vector<GradientRows>& output_grads,
                            const std::vector<float*>& weight_grads, Executor* executor);

namespace cuda_impl {

// On a GPU, these functions enqueue work with the same bits, for reply rows of any type. Inputs are
// in host memory, all else is in the GPU's.
Status CombineRows(const ExchangeLayout& layout,
                   const std::vector<std::vector<ResponseColumns>>& columns,
                   const std::vector<CombinedInput>& inputs, const std::vector<OutputRows>& outputs,
                   Device* device);
Status CombineWeightsGradient(const ExchangeLayout& layout,
                              const std::vector<std::vector<ResponseColumns>>& columns,
                              const std::vector<CombinedInput>& inputs,
                              const std::vector<GradientRows>& output_grads,
                              const std::vector<float*>& weight_grads, Device* device);

}  // namespace cuda_impl
}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_EXCHANGE_COMBINE_ROWS_H_
