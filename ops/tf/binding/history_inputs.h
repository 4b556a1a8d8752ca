// The history of a saved table's rule, as inputs of ops: `step`, `first_step`, `table_step`,
// `run_lengths` and `numbers`.
#ifndef KERAS_SPARSE_OPS_TF_BINDING_HISTORY_INPUTS_H_
#define KERAS_SPARSE_OPS_TF_BINDING_HISTORY_INPUTS_H_

#include "ops/core/optimizer/update_history.h"
#include "tensorflow/core/framework/op_kernel.h"

// For an op's definition.
#define KERAS_SPARSE_HISTORY_INPUTS \
  Input("step: int64")              \
      .Input("first_step: int64")   \
      .Input("table_step: uint32")  \
      .Input("run_lengths: int64")  \
      .Input("numbers: float")

namespace keras_sparse {

absl::Status ReadHistory(tensorflow::OpKernelContext* ctx, RuleHistory* history);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_BINDING_HISTORY_INPUTS_H_
