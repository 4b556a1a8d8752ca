// Ops that remove rows.
#include <memory>
#include <string>
#include <vector>

#include "ops/core/operations/clear_rows.h"
#include "ops/core/operations/evict_rows.h"
#include "ops/tf/binding/kernel.h"
#include "ops/tf/binding/tf_executor.h"

namespace keras_sparse {

// KerasSparseEvict: drops the rows of tables that an eviction policy selects.
REGISTER_OP("KerasSparseEvict")
    .Attr("N: int >= 1")
    .Attr("policy: string")
    .Attr("constant_names: list(string)")
    .Attr("with_rows: bool")
    .Input("handles: N * resource")
    .Input("constants: double")
    .Output("num_evicted: int64")
    .Output("keys: N * int64")
    .Output("records: N * float")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      const int n = c->num_inputs() - 1;
      c->set_output(0, c->Vector(n));
      for (int i = 0; i < n; ++i) {
        c->set_output(1 + i, c->Vector(c->UnknownDim()));
        c->set_output(1 + n + i, c->Matrix(c->UnknownDim(), c->UnknownDim()));
      }
      return absl::OkStatus();
    });

class EvictOp : public tf::OpKernel {
 public:
  explicit EvictOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("policy", &eviction_.policy));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("constant_names", &constant_names_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("with_rows", &with_rows_));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    EvictionOptions eviction = eviction_;
    OP_REQUIRES_OK(ctx, ReadConstants(ctx, constant_names_, &eviction.constants));
    std::unique_ptr<EvictionPolicy> policy;
    OP_REQUIRES_OK(ctx, ToTf(EvictionPolicy::Create(eviction, &policy)));
    tf::Tensor* num_evicted = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output("num_evicted", {static_cast<int64_t>(tables.size())},
                                             &num_evicted));
    tf::OpOutputList keys;
    tf::OpOutputList records;
    OP_REQUIRES_OK(ctx, ctx->output_list("keys", &keys));
    OP_REQUIRES_OK(ctx, ctx->output_list("records", &records));
    TfExecutor executor(ctx);
    for (int i = 0; i < static_cast<int>(tables.size()); ++i) {
      ExportedRows rows;
      OP_REQUIRES_OK(ctx,
                     ToTf(EvictRows(tables[i], *policy, &executor, &num_evicted->flat<int64_t>()(i),
                                    with_rows_ ? &rows : nullptr)));
      const auto num_rows = static_cast<int64_t>(rows.keys.size());
      OP_REQUIRES_OK(ctx, CopyToOutput(rows.keys, {num_rows}, i, &keys));
      OP_REQUIRES_OK(ctx, CopyToOutput(rows.records, {num_rows, rows.record_floats}, i, &records));
    }
  }

 private:
  EvictionOptions eviction_;
  std::vector<std::string> constant_names_;
  bool with_rows_ = false;
};

const RegisterOnCpuAndGpu<EvictOp> kEvict("KerasSparseEvict", {"handles", "constants",
                                                               "num_evicted", "keys", "records"});

// KerasSparseClear: resets tables to their state before training.
REGISTER_OP("KerasSparseClear")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

static absl::Status ComputeClear(tf::OpKernelContext* ctx, const TableList& tables) {
  TfExecutor executor(ctx);
  for (size_t i = 0; i < tables.size(); ++i) {
    TF_RETURN_IF_ERROR(ToTf(ClearRows(tables[i], &executor)));
  }
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<TablesOp<ComputeClear>> kClear("KerasSparseClear", {"handles"});

// KerasSparseCompact: removes the bytes of erased rows from the files of tables.
REGISTER_OP("KerasSparseCompact")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

static absl::Status ComputeCompact(tf::OpKernelContext* /*ctx*/, const TableList& tables) {
  for (size_t i = 0; i < tables.size(); ++i) {
    TF_RETURN_IF_ERROR(ToTf(CompactTiers(*tables[i])));
  }
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<TablesOp<ComputeCompact>> kCompact("KerasSparseCompact", {"handles"});

}  // namespace keras_sparse
