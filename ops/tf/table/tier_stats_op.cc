// KerasSparseTierStats: what is in each tier of one table and what it has done, from the first tier
// down: rows, bytes, memory_bytes, hits, misses, promotions, demotions, read_bytes, write_bytes,
// compacted_bytes, busy_ns.
#include <vector>

#include "ops/core/operations/read_stats.h"
#include "ops/tf/binding/kernel.h"

namespace keras_sparse {
namespace {

constexpr int64_t kNumTierStats = 11;

}  // namespace

REGISTER_OP("KerasSparseTierStats")
    .Attr("N: int = 1")
    .Input("handles: N * resource")
    .Output("tiers: string")
    .Output("stats: int64")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      const auto num_tiers = c->UnknownDim();
      c->set_output(0, c->Vector(num_tiers));
      c->set_output(1, c->Matrix(num_tiers, kNumTierStats));
      return absl::OkStatus();
    });

static absl::Status ComputeTierStats(tf::OpKernelContext* ctx, const TableList& tables) {
  if (tables.size() != 1) {
    return InvalidInput("`handles` must have one table");
  }
  const std::vector<TierStats> all = TierStatsOf(*tables[0]);
  const auto num_tiers = static_cast<int64_t>(all.size());
  tf::Tensor* tiers = nullptr;
  tf::Tensor* stats = nullptr;
  TF_RETURN_IF_ERROR(ctx->allocate_output(0, {num_tiers}, &tiers));
  TF_RETURN_IF_ERROR(ctx->allocate_output(1, {num_tiers, kNumTierStats}, &stats));
  auto names = tiers->vec<tf::tstring>();
  auto rows = stats->matrix<int64_t>();
  for (int64_t i = 0; i < num_tiers; ++i) {
    const TierStats& tier = all[static_cast<size_t>(i)];
    names(i) = tier.tier;
    const std::vector<int64_t> counts = {
        tier.rows,        tier.bytes,           tier.memory_bytes, tier.hits,
        tier.misses,      tier.promotions,      tier.demotions,    tier.read_bytes,
        tier.write_bytes, tier.compacted_bytes, tier.busy_ns};
    for (size_t j = 0; j < counts.size(); ++j) rows(i, j) = counts[j];
  }
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<TablesOp<ComputeTierStats>> kTierStats("KerasSparseTierStats",
                                                                 {"handles", "tiers", "stats"});

}  // namespace keras_sparse
