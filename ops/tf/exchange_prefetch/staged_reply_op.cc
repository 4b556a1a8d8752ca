// KerasSparseStagedReply: a lookup that all ranks have staged -> its rows, and the rows that this
// rank served to others, in the form of KerasSparseServeRows and the following exchange.
#include <memory>

#include "ops/tf/binding/kernel.h"
#include "ops/tf/exchange_prefetch/prefetch_exchange.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseStagedReply")
    .Attr("P: int >= 0")
    // Lets TensorFlow see the branch of a `tf.cond` that contains this op. Otherwise TensorFlow
    // would make the op wait for others of its kind, and ranks with another order would deadlock.
    .Input("area: resource")
    .Input("step: variant")
    // The first message of the step.
    .Input("words: int32")
    .Input("splits: int32")
    .Input("own_words: int32")
    .Output("reply: int32")
    .Output("reply_splits: int32")
    .Output("own_reply: int32")
    .Output("served_rows: int64")
    .Output("ids: P * int64")
    .Output("row_splits: P * int64")
    .SetShapeFn(ReplyShapes);

static absl::Status ComputeStagedReply(tf::OpKernelContext* ctx) {
  std::shared_ptr<LookupStep> step;
  BlockTensors first;
  TF_RETURN_IF_ERROR(LookupStepVariant::Read(ctx, &step));
  TF_RETURN_IF_ERROR(first.ReadInputs(ctx));
  if (step->prepared == nullptr) {
    return InvalidInput("`step` must be of a lookup that was staged");
  }
  const bool has_rows = step->prepared->exchange->reads_rows;
  (has_rows ? step->prepared->content->reply : first).SetOutputs(ctx, 0);
  step->served.SetOutputs(ctx, 3);
  return absl::OkStatus();
}

REGISTER_KERNEL_BUILDER(Name("KerasSparseStagedReply").Device(tf::DEVICE_CPU),
                        CallOp<ComputeStagedReply>);

}  // namespace keras_sparse
