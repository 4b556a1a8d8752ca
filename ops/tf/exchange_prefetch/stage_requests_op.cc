// KerasSparseStageRequests: hands the lookups of a batch to a stage, which sends them to the other
// ranks.
#include <memory>
#include <utility>
#include <vector>

#include "ops/tf/binding/kernel.h"
#include "ops/tf/exchange_prefetch/prefetch_exchange.h"
#include "tsl/profiler/lib/traceme.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseStageRequests")
    .Attr("N: int >= 1")
    .Attr("input_tables: list(int)")
    .Attr("combiners: list(string)")
    // How many of the inputs belong to each lookup, in order.
    .Attr("lookup_sizes: list(int)")
    .Input("stage: resource")
    .Input("batch: int64")
    .Input("ids: N * int64")
    .Input("row_splits: N * int64")
    .Input("weights: N * float")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

class StageRequestsOp : public tf::OpKernel {
 public:
  explicit StageRequestsOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadInputTables(ctx, &input_tables_));
    OP_REQUIRES_OK(ctx, ReadCombiners(ctx, &combiners_));
    OP_REQUIRES_OK(ctx, ReadLookupSizes(ctx, combiners_.size(), &lookup_sizes_));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    tf::core::RefCountPtr<ExchangeStageResource> resource;
    OP_REQUIRES_OK(ctx, tf::LookupResource(ctx, tf::HandleFromInput(ctx, 0), &resource));
    int64_t batch = 0;
    OP_REQUIRES_OK(ctx, ReadBatchNumber(ctx, &batch));
    std::vector<RequestInput> inputs;
    OP_REQUIRES_OK(ctx, ReadRequestInputs(ctx, input_tables_, combiners_, false, &inputs));
    // Keeps the buffers of the inputs valid. Excludes the stage's own handle, which would keep the
    // stage alive.
    const auto tensors = std::make_shared<std::vector<tf::Tensor>>();
    for (int i = 2; i < ctx->num_inputs(); ++i) tensors->push_back(ctx->input(i));
    std::vector<std::shared_ptr<StagedLookup>> lookups;
    auto next = inputs.begin();
    for (const int64_t size : lookup_sizes_) {
      lookups.push_back(MakeLookup(batch, {next, next + size}, tensors, resource->exchange()));
      next += size;
    }
    const int64_t num_ahead =
        resource->stage()->most_ahead() * static_cast<int64_t>(lookups.size());
    resource->exchange()->rounds.KeepAtLeast(static_cast<size_t>(2 * num_ahead));
    resource->stage()->Stage(batch, std::move(lookups));
  }

 private:
  static std::shared_ptr<StagedLookup> MakeLookup(int64_t batch, std::vector<RequestInput> inputs,
                                                  std::shared_ptr<std::vector<tf::Tensor>> tensors,
                                                  std::shared_ptr<PrefetchExchange> exchange) {
    const Fingerprint fingerprint = FingerprintOf(exchange->layout, inputs);
    const std::shared_ptr<PrefetchBuffer> area = exchange->area.area;
    const auto work = [batch, inputs = std::move(inputs), tensors = std::move(tensors),
                       exchange = std::move(exchange)](std::unique_ptr<StagedRows>* rows) {
      const tsl::profiler::TraceMe trace(
          [batch] { return tsl::profiler::TraceMeEncode("StageLookup", {{"batch", batch}}); });
      return Prepare(inputs, exchange, rows);
    };
    return std::make_shared<StagedLookup>(fingerprint, area, work);
  }

  static Status Prepare(const std::vector<RequestInput>& inputs,
                        const std::shared_ptr<PrefetchExchange>& exchange,
                        std::unique_ptr<StagedRows>* rows) {
    auto prepared = std::make_unique<PreparedRequest>();
    prepared->exchange = exchange;
    prepared->content = std::make_shared<RoundContent>();
    InlineExecutor executor;
    KERAS_SPARSE_RETURN_IF_ERROR(prepared->content->request.Make(
        exchange->layout, inputs, exchange->wire_type, &executor, exchange->header()));
    KERAS_SPARSE_RETURN_IF_ERROR(exchange->rounds.Exchange(prepared->content, &prepared->round));
    if (prepared->round < 0) return Status::Ok();
    if (exchange->reads_rows) {
      std::vector<Block> blocks;
      KERAS_SPARSE_RETURN_IF_ERROR(
          FromTf(ReadBlocks(prepared->content->reply, exchange->layout, &blocks)));
      KERAS_SPARSE_RETURN_IF_ERROR(CheckBlocks(exchange->layout, blocks));
    }
    *rows = std::move(prepared);
    return Status::Ok();
  }

  std::vector<size_t> input_tables_;
  std::vector<Combiner> combiners_;
  std::vector<int64_t> lookup_sizes_;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseStageRequests").Device(tf::DEVICE_CPU), StageRequestsOp);

}  // namespace keras_sparse
