// The history of a saved table's rule, as ops take it: inputs `step`, `first_step`, `table_step`,
// `run_lengths` and `numbers`.
#ifndef KERAS_SPARSE_OPS_TF_BINDING_HISTORY_INPUTS_H_
#define KERAS_SPARSE_OPS_TF_BINDING_HISTORY_INPUTS_H_

#include "ops/core/optimizer/step_log.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace keras_sparse {

absl::Status ReadHistory(tensorflow::OpKernelContext* ctx, RuleHistory* history);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_BINDING_HISTORY_INPUTS_H_
