// ReturnGradients: the backward pass of a lookup over ranks, which sends gradients to the rows'
// owners.
#ifndef KERAS_SPARSE_OPS_CORE_EXCHANGE_RETURN_GRADIENTS_H_
#define KERAS_SPARSE_OPS_CORE_EXCHANGE_RETURN_GRADIENTS_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/device/device.h"
#include "ops/core/exchange/combine_rows.h"
#include "ops/core/exchange/exchange_layout.h"
#include "ops/core/exchange/response_rows.h"

namespace keras_sparse {

// Merges the gradients of the outputs into one per reply row, and writes them in the layout of the
// replies.
//   output_grads  (num_inputs) each (num_bags, dim), of one type
//   scale         factor of the gradients
//   columns       of the floats that are written
// REQUIRES: CheckInputs returned OK
void ReturnGradients(const ExchangeLayout& layout, const ResponseRows& rows,
                     const std::vector<CombinedInput>& inputs,
                     const std::vector<GradientRows>& output_grads, float scale,
                     const std::vector<std::vector<ResponseColumns>>& columns, Executor* executor);

// Concatenates the gradients received from all ranks, for each of the layout's own parts.
//   floats       (num_ranks) the gradients that each rank has sent
//   served_rows  (num_parts, num_ranks) number of rows of each part; row-major
//   grads        (num_parts) each (rows of all ranks, num_columns)
void GatherGradients(const ExchangeLayout& layout, const std::vector<const float*>& floats,
                     const int64_t* served_rows, const std::vector<float*>& grads,
                     Executor* executor);

namespace cuda_impl {

// On a GPU, these functions enqueue work with the same bits, to and from floats of any type. Inputs
// and `served_rows` are in host memory, all else is in the GPU's.
Status ReturnGradients(const ExchangeLayout& layout, const ResponseRows& rows,
                       const std::vector<CombinedInput>& inputs,
                       const std::vector<GradientRows>& output_grads, float scale,
                       const std::vector<std::vector<ResponseColumns>>& columns, Device* device);
//   blocks  (num_ranks) of floats of the type
Status GatherGradients(const ExchangeLayout& layout, const std::vector<const void*>& blocks,
                       FloatType type, const int64_t* served_rows, const std::vector<float*>& grads,
                       Device* device);

}  // namespace cuda_impl
}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_EXCHANGE_RETURN_GRADIENTS_H_
