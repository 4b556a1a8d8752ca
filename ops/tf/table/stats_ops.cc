// Ops that return the contents and counters of tables.
#include <vector>

#include "ops/core/operations/read_stats.h"
#include "ops/tf/binding/kernel.h"

namespace keras_sparse {

// KerasSparseSize: the number of rows of each table.
REGISTER_OP("KerasSparseSize")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Output("sizes: int64")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Vector(c->num_inputs()));
      return absl::OkStatus();
    });

static absl::Status ComputeSize(tf::OpKernelContext* ctx, const TableList& tables) {
  tf::Tensor* sizes = nullptr;
  TF_RETURN_IF_ERROR(ctx->allocate_output(0, {static_cast<int64_t>(tables.size())}, &sizes));
  for (size_t i = 0; i < tables.size(); ++i) sizes->flat<int64_t>()(i) = NumRowsOf(*tables[i]);
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<TablesOp<ComputeSize>> kSize("KerasSparseSize", {"handles", "sizes"});

constexpr int64_t kNumTableStats = 12;

// KerasSparseStats: the statistics of each table.
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

constexpr int64_t kNumTierStats = 11;

// KerasSparseTierStats: the contents and counters of each tier of one table, from the first tier
// down: rows, bytes, memory_bytes, hits, misses, promotions, demotions, read_bytes, write_bytes,
// compacted_bytes, busy_ns.
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
