// KerasSparseStageLookups: hands the lookups of a batch to a stage, for KerasSparseLookup to use.
#include <vector>

#include "ops/tf/binding/kernel.h"
#include "ops/tf/binding/lookup_outputs.h"
#include "ops/tf/binding/tf_device.h"
#include "ops/tf/staging/prefetched_rows.h"
#include "tsl/profiler/lib/traceme.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseStageLookups")
    .Attr("N: int >= 1")
    .Attr("combiners: list(string)")
    // How many of the tables belong to each lookup, in order.
    .Attr("lookup_sizes: list(int)")
    // Whether the rows of each lookup's tables are side by side in one output, and its type.
    .Attr("are_joined: list(bool)")
    .Attr("out_types: list({float, half, bfloat16})")
    // Whether to do the lookups, for steps that may use rows that have missed updates.
    .Attr("reads_rows: bool")
    .Input("stage: resource")
    .Input("batch: int64")
    .Input("handles: N * resource")
    .Input("ids: N * int64")
    .Input("row_splits: N * int64")
    .Input("weights: N * float")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

class StageLookupsOp : public tf::OpKernel {
 public:
  explicit StageLookupsOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadCombiners(ctx, &combiners_));
    OP_REQUIRES_OK(ctx, ReadLookupSizes(ctx, combiners_.size(), &lookup_sizes_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("reads_rows", &reads_rows_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("are_joined", &are_joined_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("out_types", &out_types_));
    OP_REQUIRES(
        ctx,
        are_joined_.size() == lookup_sizes_.size() && out_types_.size() == lookup_sizes_.size(),
        InvalidInput("`are_joined` and `out_types` must have one entry a lookup"));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    tf::core::RefCountPtr<LookupPrefetcherResource> resource;
    OP_REQUIRES_OK(ctx, tf::LookupResource(ctx, tf::HandleFromInput(ctx, 0), &resource));
    int64_t batch = 0;
    OP_REQUIRES_OK(ctx, ReadBatchNumber(ctx, &batch));
    const auto inputs = std::make_shared<Inputs>();
    BagInputs bags;
    OP_REQUIRES_OK(ctx, inputs->tables.Read(ctx));
    OP_REQUIRES_OK(ctx, bags.Read(ctx, combiners_));
    // Excludes the stage's own handle, which would keep the stage alive.
    for (const char* name : {"ids", "row_splits", "weights"}) {
      tf::OpInputList list;
      OP_REQUIRES_OK(ctx, ctx->input_list(name, &list));
      inputs->tensors.insert(inputs->tensors.end(), list.begin(), list.end());
    }
    std::vector<std::shared_ptr<StagedLookup>> lookups;
    size_t next = 0;
    for (size_t l = 0; l < lookup_sizes_.size(); ++l) {
      std::vector<LookupRequest> requests;
      const size_t first = next;
      for (const size_t end = next + static_cast<size_t>(lookup_sizes_[l]); next < end; ++next) {
        EmbeddingTable* table = inputs->tables[next];
        requests.push_back({table, bags.ids(static_cast<int>(next)), bags.bags(next), nullptr});
      }
      OP_REQUIRES_OK(ctx, PlanRows({are_joined_[l], FloatTypeOf(out_types_[l])}, &requests));
      lookups.push_back(MakeLookup(batch, inputs, first, std::move(requests), resource->stage(),
                                   OutputMemory(ctx)));
    }
    resource->stage()->Stage(batch, std::move(lookups));
  }

 private:
  // Owns the buffers of a lookup's pointers.
  struct Inputs {
    TableList tables;
    std::vector<tf::Tensor> tensors;
  };

  //   first   the lookup's first table, by its position among the inputs
  //   memory  from OutputMemory
  std::shared_ptr<StagedLookup> MakeLookup(int64_t batch, std::shared_ptr<Inputs> inputs,
                                           size_t first, std::vector<LookupRequest> requests,
                                           std::weak_ptr<LookupPrefetcher> stage,
                                           tf::Allocator* memory) const {
    const Fingerprint fingerprint = FingerprintOf(requests);
    const std::shared_ptr<PrefetchBuffer> area = inputs->tables.prefetch_buffer(first);
    const auto work = [batch, inputs = std::move(inputs), requests = std::move(requests),
                       stage = std::move(stage), memory,
                       reads_rows = reads_rows_](std::unique_ptr<StagedRows>* rows) {
      // TensorFlow's profiler shows only ops, and this work is not an op.
      const tsl::profiler::TraceMe trace(
          [batch] { return tsl::profiler::TraceMeEncode("StageLookup", {{"batch", batch}}); });
      auto ready = std::make_unique<PrefetchedRows>();
      KERAS_SPARSE_RETURN_IF_ERROR(ready->PrefetchRecords(requests));
      if (reads_rows) {
        const std::shared_ptr<LookupPrefetcher> owner = stage.lock();
        const int64_t max_staleness = owner == nullptr ? 0 : owner->max_staleness();
        const Status read = ready->Read(requests, max_staleness, memory);
        // There may be room at the step, which then does the lookup itself.
        if (memory != nullptr && read.code() == StatusCode::kResourceExhausted) return Status::Ok();
        KERAS_SPARSE_RETURN_IF_ERROR(read);
      }
      *rows = std::move(ready);
      return Status::Ok();
    };
    return std::make_shared<StagedLookup>(fingerprint, area, work);
  }

  std::vector<Combiner> combiners_;
  std::vector<int64_t> lookup_sizes_;
  std::vector<bool> are_joined_;
  std::vector<tf::DataType> out_types_;
  bool reads_rows_;
};

// The outputs of a dataset are in host memory.
const RegisterOnCpuAndGpu<StageLookupsOp> kStageLookups("KerasSparseStageLookups",
                                                        {"stage", "batch", "handles", "ids",
                                                         "row_splits", "weights"});

}  // namespace keras_sparse
