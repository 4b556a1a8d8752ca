// Ops of stages of lookups.
#include "ops/tf/binding/kernel.h"
#include "ops/tf/staging/prefetched_rows.h"

namespace keras_sparse {

// KerasSparseCreateLookupStage: options -> the handle of a new stage.
REGISTER_OP("KerasSparseCreateLookupStage")
    .Attr("num_threads: int")
    .Attr("capacity: int")
    .Output("stage: resource")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape);

class CreateLookupStageOp : public tf::OpKernel {
 public:
  explicit CreateLookupStageOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_threads", &options_.num_threads));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("capacity", &options_.capacity));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    std::shared_ptr<LookupPrefetcher> stage;
    OP_REQUIRES_OK(ctx, ToTf(LookupPrefetcher::Open(options_, &stage)));
    SetHandle(ctx, 0, new LookupPrefetcherResource(std::move(stage)));
  }

 private:
  LookupPrefetcher::Options options_;
};

// Also for lookups in tables on a GPU, because an op takes handles of one device.
const RegisterOnCpuAndGpu<CreateLookupStageOp> kCreateLookupStage("KerasSparseCreateLookupStage",
                                                                  {"stage"});

// KerasSparseLookupStageState: how far ahead a stage currently works.
REGISTER_OP("KerasSparseLookupStageState")
    .Input("stage: resource")
    .Output("state: int64")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Vector(3));
      return absl::OkStatus();
    });

static absl::Status ComputeLookupStageState(tf::OpKernelContext* ctx) {
  tf::core::RefCountPtr<LookupPrefetcherResource> resource;
  TF_RETURN_IF_ERROR(tf::LookupResource(ctx, tf::HandleFromInput(ctx, 0), &resource));
  tf::Tensor* output = nullptr;
  TF_RETURN_IF_ERROR(ctx->allocate_output(0, {3}, &output));
  auto state = output->vec<int64_t>();
  state(0) = resource->stage()->num_threads();
  state(1) = resource->stage()->capacity();
  state(2) = resource->stage()->num_ahead();
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<CallOp<ComputeLookupStageState>> kLookupStageState(
    "KerasSparseLookupStageState", {"stage", "state"});

constexpr int64_t kNumStats = 8;

// KerasSparseStagingStats: the counts of each table's staged lookups.
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
