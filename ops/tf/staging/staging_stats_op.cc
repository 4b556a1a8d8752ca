// KerasSparseStagingStats: what became of the lookups that were staged for each table.
#include "ops/tf/binding/binding.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {
namespace {

constexpr int64_t kNumStats = 8;

}  // namespace

REGISTER_OP("KerasSparseStagingStats")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Output("stats: int64")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Matrix(c->num_inputs(), kNumStats));
      return absl::OkStatus();
    });

class StagingStatsOp : public tf::OpKernel {
 public:
  explicit StagingStatsOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    tf::Tensor* output = nullptr;
    OP_REQUIRES_OK(
        ctx, ctx->allocate_output(0, {static_cast<int64_t>(tables.size()), kNumStats}, &output));
    auto rows = output->matrix<int64_t>();
    for (size_t i = 0; i < tables.size(); ++i) {
      const StagingCounts counts = tables.prefetch_buffer(i)->counts();
      rows(i, 0) = counts.staged;
      rows(i, 1) = counts.used;
      rows(i, 2) = counts.missed;
      rows(i, 3) = counts.dropped;
      rows(i, 4) = counts.waited_ns;
      rows(i, 5) = counts.hidden_ns;
      rows(i, 6) = counts.staleness_sum;
      rows(i, 7) = counts.staleness_max;
    }
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseStagingStats").Device(tf::DEVICE_CPU), StagingStatsOp);
REGISTER_KERNEL_BUILDER(Name("KerasSparseStagingStats")
                            .Device(tf::DEVICE_GPU)
                            .HostMemory("handles")
                            .HostMemory("stats"),
                        StagingStatsOp);

}  // namespace keras_sparse
