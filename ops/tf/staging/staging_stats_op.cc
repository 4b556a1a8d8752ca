// KerasSparseStagingStats: what became of the lookups that were staged for each table.
#include "ops/tf/binding/kernel.h"

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

static absl::Status ComputeStagingStats(tf::OpKernelContext* ctx, const TableList& tables) {
  tf::Tensor* output = nullptr;
  TF_RETURN_IF_ERROR(
      ctx->allocate_output(0, {static_cast<int64_t>(tables.size()), kNumStats}, &output));
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
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<TablesOp<ComputeStagingStats>> kStagingStats("KerasSparseStagingStats",
                                                                       {"handles", "stats"});

}  // namespace keras_sparse
