// Ops that reject a step before it is made.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/core/operations/check_room.h"
#include "ops/core/operations/lookup.h"
#include "ops/tf/binding/kernel.h"
#include "ops/tf/binding/tf_executor.h"
#include "tensorflow/core/platform/tstring.h"

namespace keras_sparse {

// A table that comes several times, one after the other, has had several lookups.
static std::vector<StepIds> StepIdsOf(const TableList& tables, const tf::OpInputList& ids) {
  std::vector<StepIds> all;
  for (int i = 0; i < ids.size(); ++i) {
    EmbeddingTable* table = tables[static_cast<size_t>(i)];
    if (all.empty() || all.back().table != table) all.push_back({table, {}});
    all.back().lookups.push_back({ids[i].flat<int64_t>().data(), ids[i].NumElements()});
  }
  return all;
}

// KerasSparseCheckRoom and KerasSparseRefuseStep: check whether a step would exceed a table's row
// limit, on one rank and on all ranks.
//
// An error is returned as text, so that ranks first agree on it; empty if there is room.
REGISTER_OP("KerasSparseCheckRoom")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Input("ids: N * int64")
    .Output("refusal: string")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape);

static absl::Status ComputeCheckRoom(tf::OpKernelContext* ctx, const TableList& tables) {
  tf::OpInputList ids;
  TF_RETURN_IF_ERROR(ctx->input_list("ids", &ids));
  tf::Tensor* refusal = nullptr;
  TF_RETURN_IF_ERROR(ctx->allocate_output(0, {}, &refusal));
  TfExecutor executor(ctx);
  const Status status = CheckRooms(StepIdsOf(tables, ids), &executor);
  if (status.ok() || status.code() == StatusCode::kInvalidArgument) return ToTf(status);
  refusal->scalar<tf::tstring>()() = status.message();
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<TablesOp<ComputeCheckRoom>> kCheckRoom("KerasSparseCheckRoom",
                                                                 {"handles", "refusal"});

REGISTER_OP("KerasSparseRefuseStep")
    .Input("refusal: string")
    .Input("num_refusals: int32")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

static absl::Status ComputeRefuseStep(tf::OpKernelContext* ctx) {
  const auto num_refusals = ctx->input(1).scalar<int32_t>()();
  if (num_refusals == 0) return absl::OkStatus();
  std::string refusal = ctx->input(0).scalar<tf::tstring>()();
  if (refusal.empty()) {
    refusal = absl::StrCat(
        "`max_rows` of the tables of each rank must hold the rows of all its keys. No rank has "
        "made the step. Received: too many keys on ",
        num_refusals, " other ranks, whose errors name the tables");
  }
  ctx->SetStatus(ToTf(ResourceExhausted(std::move(refusal))));
  return absl::OkStatus();
}

REGISTER_KERNEL_BUILDER(Name("KerasSparseRefuseStep").Device(tf::DEVICE_CPU),
                        CallOp<ComputeRefuseStep>);

// KerasSparseCheckUpdate: checks whether tables would reject an update, for a step of several ops.
REGISTER_OP("KerasSparseCheckUpdate")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Input("ids: N * int64")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

static absl::Status ComputeCheckUpdate(tf::OpKernelContext* ctx, const TableList& tables) {
  tf::OpInputList ids;
  TF_RETURN_IF_ERROR(ctx->input_list("ids", &ids));
  TfExecutor executor(ctx);
  return ToTf(CheckUpdates(StepIdsOf(tables, ids), &executor));
}

const RegisterOnCpuAndGpu<TablesOp<ComputeCheckUpdate>> kCheckUpdate("KerasSparseCheckUpdate",
                                                                     {"handles"});

// KerasSparseCheckLookups: returns the errors of the ids of lookups on a GPU, for which these have
// not waited. The op waits in one thread of TensorFlow's, while others queue the rest of the step.
// Without ids it comes after all such ops of these tables.
REGISTER_OP("KerasSparseCheckLookups")
    .Attr("N: int >= 1")
    .Attr("num_ids: int >= 0")
    .Input("handles: N * resource")
    .Input("ids: num_ids * int64")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

class CheckLookupsOp : public tf::OpKernel {
 public:
  using OpKernel::OpKernel;

  bool IsExpensive() override { return true; }

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    tf::OpInputList ids;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    OP_REQUIRES_OK(ctx, ctx->input_list("ids", &ids));
    OP_REQUIRES(ctx, ids.size() == 0 || ids.size() == static_cast<int>(tables.size()),
                InvalidInput("`ids` must be those of each table, or none"));
    OP_REQUIRES_OK(ctx, ToTf(CheckLookups(StepIdsOf(tables, ids))));
  }
};

const RegisterOnCpuAndGpu<CheckLookupsOp> kCheckLookups("KerasSparseCheckLookups", {"handles"});

}  // namespace keras_sparse
