// KerasSparseGatherGradients: the gradients received from ranks -> the gradients of each of this
// rank's tables.
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/core/exchange/return_gradients.h"
#include "ops/tf/binding/kernel.h"
#include "ops/tf/binding/output_allocator.h"
#include "ops/tf/exchange/exchange_op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseGatherGradients")
    .Attr("P: int >= 0")
    .KERAS_SPARSE_LAYOUT_ATTRS.KERAS_SPARSE_WIRE_ATTR.KERAS_SPARSE_WORD_ATTR
    .Attr("output_dims: list(int)")
    .Input("words: W")
    .Input("splits: int32")
    .Input("own_words: W")
    .Input("served_rows: int64")
    .Output("grads: P * float")
    // Stateful, because a rank without tables has no use for the output, but the others wait for
    // its gradients.
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      std::vector<int64_t> dims;
      TF_RETURN_IF_ERROR(c->GetAttr("output_dims", &dims));
      for (size_t p = 0; p < dims.size(); ++p) {
        c->set_output(static_cast<int>(p), c->Matrix(c->UnknownDim(), c->MakeDim(dims[p])));
      }
      return absl::OkStatus();
    });

class GatherGradientsOp : public ExchangeOp {
 public:
  explicit GatherGradientsOp(tf::OpKernelConstruction* ctx) : ExchangeOp(ctx) {}

  void Compute(tf::OpKernelContext* ctx) override {
    std::unique_ptr<ExchangePlace> place;
    std::vector<Block> blocks;
    const tf::Tensor* served_rows = nullptr;
    OP_REQUIRES_OK(ctx, ExchangePlace::Of(ctx, &place));
    OP_REQUIRES_OK(ctx, ReadBlocks(ctx, layout_, &blocks));
    OP_REQUIRES_OK(ctx, ToTf(place->CheckBlocks(layout_, blocks)));
    OP_REQUIRES_OK(ctx, ctx->input("served_rows", &served_rows));
    const auto num_parts = static_cast<int64_t>(layout_.own_parts().size());
    const auto num_ranks = static_cast<int64_t>(layout_.num_ranks);
    OP_REQUIRES(ctx, served_rows->NumElements() == num_parts * num_ranks,
                InvalidInput("`served_rows` must be of shape (num_parts, num_ranks)"));
    const int64_t* rows = served_rows->flat<int64_t>().data();
    std::vector<int64_t> expected(layout_.num_ranks, 0);
    std::vector<float*> grads;
    for (int64_t p = 0; p < num_parts; ++p) {
      const int64_t dim = layout_.slice(layout_.own_parts()[static_cast<size_t>(p)]).num_columns;
      int64_t num_rows = 0;
      for (int64_t r = 0; r < num_ranks; ++r) {
        num_rows += rows[p * num_ranks + r];
        expected[static_cast<size_t>(r)] += rows[p * num_ranks + r] * dim;
      }
      tf::Tensor tensor;
      OP_REQUIRES_OK(ctx, MakeTensor(tf::DT_FLOAT, {num_rows, dim}, &tensor, place->memory()));
      grads.push_back(tensor.flat<float>().data());
      ctx->set_output(static_cast<int>(p), tensor);
    }
    ReceivedFloats received;
    OP_REQUIRES_OK(ctx,
                   received.Read(blocks, kHeaderWords, wire_type_, expected, !place->is_gpu()));
    OP_REQUIRES_OK(ctx, ToTf(place->GatherGradients(layout_, received.floats(), received.type(),
                                                    rows, grads)));
  }
};

const RegisterOnCpuAndGpu<GatherGradientsOp> kGatherGradients("KerasSparseGatherGradients",
                                                              {"splits", "served_rows"}, "W");

}  // namespace keras_sparse
