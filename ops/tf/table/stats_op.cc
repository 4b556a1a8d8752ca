// KerasSparseStats: the statistics of each table.
#include "ops/core/operations/read_stats.h"
#include "ops/tf/binding/kernel.h"

namespace keras_sparse {
namespace {

constexpr int64_t kNumTableStats = 12;

}  // namespace

REGISTER_OP("KerasSparseStats")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Output("stats: int64")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Matrix(c->num_inputs(), kNumTableStats));
      return absl::OkStatus();
    });

static absl::Status ComputeStats(tf::OpKernelContext* ctx, const TableList& tables) {
  tf::Tensor* output = nullptr;
  TF_RETURN_IF_ERROR(
      ctx->allocate_output(0, {static_cast<int64_t>(tables.size()), kNumTableStats}, &output));
  auto rows = output->matrix<int64_t>();
  for (size_t i = 0; i < tables.size(); ++i) {
    const TableStats stats = StatsOf(*tables[i]);
    rows(i, 0) = stats.rows;
    rows(i, 1) = stats.bytes;
    rows(i, 2) = stats.lookups;
    rows(i, 3) = stats.hits;
    rows(i, 4) = stats.created_rows;
    rows(i, 5) = stats.out_of_range_ids;
    rows(i, 6) = stats.filtered_ids;
    rows(i, 7) = stats.waiting_keys;
    rows(i, 8) = stats.filter_bytes;
    rows(i, 9) = stats.waited_ns;
    rows(i, 10) = stats.evicted_rows;
    rows(i, 11) = stats.peak_first_tier_bytes;
  }
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<TablesOp<ComputeStats>> kStats("KerasSparseStats", {"handles", "stats"});

}  // namespace keras_sparse
