// KerasSparseCombineRows: the rows that ranks sent -> the outputs of many inputs.
#include <vector>

#include "ops/core/exchange/combine_rows.h"
#include "ops/tf/binding/output_allocator.h"
#include "ops/tf/binding/tf_executor.h"
#include "ops/tf/exchange/exchange_op.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseCombineRows")
    .Attr("N: int >= 1")
    .KERAS_SPARSE_LAYOUT_ATTRS.KERAS_SPARSE_WIRE_ATTR.Attr("input_tables: list(int)")
    .Attr("combiners: list(string)")
    .Attr("output_dims: list(int)")
    .Input("words: int32")
    .Input("splits: int32")
    .Input("own_words: int32")
    .Input("reply_rows: int64")
    .Input("positions: N * int32")
    .Input("position_splits: N * int64")
    .Input("scales: N * float")
    .Input("weights: N * float")
    .Output("rows: N * float")
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      std::vector<tf::shape_inference::ShapeHandle> positions;
      std::vector<tf::shape_inference::ShapeHandle> splits;
      std::vector<std::string> combiners;
      std::vector<int64_t> dims;
      TF_RETURN_IF_ERROR(c->input("positions", &positions));
      TF_RETURN_IF_ERROR(c->input("position_splits", &splits));
      TF_RETURN_IF_ERROR(c->GetAttr("combiners", &combiners));
      TF_RETURN_IF_ERROR(c->GetAttr("output_dims", &dims));
      for (size_t i = 0; i < positions.size(); ++i) {
        tf::shape_inference::ShapeHandle checked;
        TF_RETURN_IF_ERROR(c->WithRank(positions[i], 1, &checked));
        TF_RETURN_IF_ERROR(c->WithRank(splits[i], 1, &checked));
        tf::shape_inference::DimensionHandle rows = c->Dim(positions[i], 0);
        if (combiners[i] != "none") {
          TF_RETURN_IF_ERROR(c->Subtract(c->Dim(splits[i], 0), 1, &rows));
        }
        c->set_output(static_cast<int>(i), c->Matrix(rows, c->MakeDim(dims[i])));
      }
      return absl::OkStatus();
    });

class CombineRowsOp : public InputsExchangeOp {
 public:
  explicit CombineRowsOp(tf::OpKernelConstruction* ctx) : InputsExchangeOp(ctx) {}

  void Compute(tf::OpKernelContext* ctx) override {
    ReceivedFloats replies;
    CombinedInputs inputs;
    OP_REQUIRES_OK(ctx, ReadReplies(ctx, &inputs, &replies));
    std::vector<float*> outputs;
    for (size_t i = 0; i < inputs.inputs().size(); ++i) {
      const CombinedInput& input = inputs.inputs()[i];
      outputs.emplace_back();
      OP_REQUIRES_OK(ctx, AllocateFloats(ctx, static_cast<int>(i),
                                         {input.bags.num_bags, layout_.tables[input.table].dim},
                                         &outputs.back()));
    }
    TfExecutor executor(ctx);
    CombineRows(layout_, inputs.rows().Columns(replies.floats()), inputs.inputs(), outputs,
                &executor);
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseCombineRows").Device(tf::DEVICE_CPU), CombineRowsOp);

}  // namespace keras_sparse
