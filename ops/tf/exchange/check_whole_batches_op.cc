// KerasSparseCheckWholeBatches: the rows of whole batches received from ranks -> how each input
// uses them, in the form of KerasSparseRequestRows.
#include <numeric>
#include <vector>

#include "ops/core/exchange/whole_batches.h"
#include "ops/tf/binding/kernel.h"
#include "ops/tf/exchange/exchange_op.h"

namespace keras_sparse {

// Stateless, unlike an assertion: in a function TensorFlow would make an assertion wait for earlier
// ones, and ranks may have layers in different orders there.
REGISTER_OP("KerasSparseCheckWholeBatches")
    .Attr("N: int >= 1")
    .KERAS_SPARSE_LAYOUT_ATTRS.KERAS_SPARSE_WIRE_ATTR.Input("words: int32")
    .Input("splits: int32")
    .Input("own_words: int32")
    .Output("reply_rows: int64")
    .Output("positions: N * int32")
    .Output("position_splits: N * int64")
    .Output("scales: N * float")
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->Vector(c->UnknownDim()));
      c->set_output(0, c->Matrix(c->UnknownDim(), c->UnknownDim()));
      return absl::OkStatus();
    });

class CheckWholeBatchesOp : public ExchangeOp {
 public:
  explicit CheckWholeBatchesOp(tf::OpKernelConstruction* ctx) : ExchangeOp(ctx) {}

  void Compute(tf::OpKernelContext* ctx) override {
    std::vector<Block> blocks;
    int64_t num_own_samples = 0;
    OP_REQUIRES_OK(ctx, ReadBlocks(ctx, layout_, &blocks));
    OP_REQUIRES_OK(ctx, ToTf(CheckWholeBatches(layout_, blocks, &num_own_samples)));
    tf::Tensor* reply_rows = nullptr;
    const auto num_tables = static_cast<int64_t>(layout_.tables.size());
    const auto num_ranks = static_cast<int64_t>(layout_.num_ranks);
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {2 * num_tables, num_ranks}, &reply_rows));
    for (int64_t r = 0; r < num_ranks; ++r) {
      const bool has_stored_rows = ReadHasStoredRows(blocks[static_cast<size_t>(r)].words);
      for (int64_t t = 0; t < num_tables; ++t) {
        reply_rows->matrix<int64_t>()(t, r) = num_own_samples;
        reply_rows->matrix<int64_t>()(num_tables + t, r) = has_stored_rows ? num_own_samples : 0;
      }
    }
    tf::Tensor positions;
    OP_REQUIRES_OK(ctx, ctx->allocate_temp(tf::DT_INT32, {num_own_samples}, &positions));
    int32_t* const numbers = positions.flat<int32_t>().data();
    std::iota(numbers, numbers + num_own_samples, 0);
    const int n = (num_outputs() - 1) / 3;
    for (int i = 1; i <= n; ++i) {
      ctx->set_output(i, positions);
      ctx->set_output(n + i, tf::Tensor(tf::DT_INT64, {0}));
      ctx->set_output(2 * n + i, tf::Tensor(tf::DT_FLOAT, {0}));
    }
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseCheckWholeBatches").Device(tf::DEVICE_CPU),
                        CheckWholeBatchesOp);

}  // namespace keras_sparse
