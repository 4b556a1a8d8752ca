// A request for rows of other ranks, as tensors.
#ifndef KERAS_SPARSE_OPS_TF_EXCHANGE_ROW_REQUEST_TENSORS_H_
#define KERAS_SPARSE_OPS_TF_EXCHANGE_ROW_REQUEST_TENSORS_H_

#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/exchange/row_request.h"
#include "ops/tf/exchange/exchange_inputs.h"

namespace keras_sparse {

// The inputs of a lookup over ranks: the list inputs `ids`, `row_splits` and `weights` of an op.
//   are_joined  whether their outputs will be: InvalidArgument unless they have as many rows each
absl::Status ReadRequestInputs(tf::OpKernelContext* ctx, const std::vector<size_t>& tables,
                               const std::vector<Combiner>& combiners, bool are_joined,
                               std::vector<RequestInput>* inputs);

// The shapes of a request: blocks, `reply_rows`, `positions`, `position_splits` and `scales`, from
// which the outputs of a lookup get their static shape; and what vectors follow them.
//   ids  the first of the inputs `ids`, behind which those of `row_splits` come
absl::Status SetShapesOfRequest(tf::shape_inference::InferenceContext* c, int ids);

struct RowRequestTensors {
  BlockTensors blocks;
  tf::Tensor reply_rows;
  // One of each an input.
  std::vector<tf::Tensor> positions;
  std::vector<tf::Tensor> position_splits;
  std::vector<tf::Tensor> scales;

  // What is wrong with the inputs comes back as it is, and nothing is made. An empty list of inputs
  // asks for nothing.
  //   preparation  what the headers say besides
  Status Make(const ExchangeLayout& layout, const std::vector<RequestInput>& inputs,
              FloatType wire_type, Executor* executor, const Preparation& preparation = {});
  // Other ranks are on their way to the exchange: the blocks carry the error to all of them, and
  // back to this one.
  absl::Status MakeError(const ExchangeLayout& layout, const std::vector<Combiner>& combiners,
                         const Status& status);

  // Makes them the outputs from `words` to `scales` of KerasSparseRequestRows, the first ones.
  void SetOutputs(tf::OpKernelContext* ctx) const;

 private:
  absl::Status AllocateResponseRows(const ExchangeLayout& layout);
  absl::Status AllocateInput(const Bags& bags, int64_t num_positions);
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_EXCHANGE_ROW_REQUEST_TENSORS_H_
