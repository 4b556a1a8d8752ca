// RowRequestTensors: a request for rows of other ranks, as tensors.
#ifndef KERAS_SPARSE_OPS_TF_EXCHANGE_ROW_REQUEST_TENSORS_H_
#define KERAS_SPARSE_OPS_TF_EXCHANGE_ROW_REQUEST_TENSORS_H_

#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/exchange/row_request.h"
#include "ops/tf/exchange/exchange_inputs.h"

namespace keras_sparse {

// Reads the inputs of a lookup over ranks: the list inputs `ids`, `row_splits` and `weights` of an
// op.
//   are_joined  whether their outputs will be joined: returns InvalidArgument unless all have the
//               same number of rows
absl::Status ReadRequestInputs(tf::OpKernelContext* ctx, const std::vector<size_t>& tables,
                               const std::vector<Combiner>& combiners, bool are_joined,
                               std::vector<RequestInput>* inputs);

// Sets the shapes of a request: blocks, `reply_rows`, `positions`, `position_splits` and `scales`,
// from which the outputs of a lookup get their static shape; and the vectors after them.
//   ids  number of the first input `ids`, after which the inputs `row_splits` follow
absl::Status SetShapesOfRequest(tf::shape_inference::InferenceContext* c, int ids);

struct RowRequestTensors {
  BlockTensors blocks;
  tf::Tensor reply_rows;  // (2 * num_tables, num_ranks): see RowRequest::Result
  // One of each per input.
  std::vector<tf::Tensor> positions;
  std::vector<tf::Tensor> position_splits;
  std::vector<tf::Tensor> scales;

  // Creates the request. Returns an error of the inputs, and creates nothing then. An empty list of
  // inputs requests nothing.
  //   preparation  for the headers
  Status Make(const ExchangeLayout& layout, const std::vector<RequestInput>& inputs,
              FloatType wire_type, Executor* executor, const Preparation& preparation = {});
  // Creates blocks with an error, because other ranks are waiting for the exchange: the blocks
  // carry the error to all of them, and back to this rank.
  absl::Status MakeError(const ExchangeLayout& layout, const std::vector<Combiner>& combiners,
                         const Status& status);

  // Sets the outputs from `words` to `scales` of KerasSparseRequestRows, the first ones.
  void SetOutputs(tf::OpKernelContext* ctx) const;

 private:
  absl::Status AllocateResponseRows(const ExchangeLayout& layout);
  absl::Status AllocateInput(const Bags& bags, int64_t num_positions);
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_EXCHANGE_ROW_REQUEST_TENSORS_H_
