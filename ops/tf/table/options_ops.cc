// Ops that set the rule, limit or initializer of tables.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/core/operations/check_room.h"
#include "ops/core/operations/set_filter.h"
#include "ops/core/operations/set_rule.h"
#include "ops/tf/binding/initializer_attributes.h"
#include "ops/tf/binding/kernel.h"
#include "ops/tf/binding/tf_executor.h"

namespace keras_sparse {

// KerasSparseSetRule: lays the records of tables out for an optimizer's rule.
REGISTER_OP("KerasSparseSetRule")
    .Attr("N: int >= 1")
    .Attr("rule: string")
    .Attr("constant_names: list(string)")
    .Input("handles: N * resource")
    .Input("constants: double")
    .Input("weight_decays: double")
    .Output("generations: int64")
    .Output("record_floats: int64")
    .Output("slot_names: string")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      int64_t n = 0;
      TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
      c->set_output(0, c->Vector(n));
      c->set_output(1, c->Vector(n));
      c->set_output(2, c->Vector(c->UnknownDim()));
      return absl::OkStatus();
    });

class SetRuleOp : public tf::OpKernel {
 public:
  explicit SetRuleOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("rule", &rule_.rule));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("constant_names", &constant_names_));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    const tf::Tensor* weight_decays = nullptr;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    OP_REQUIRES_OK(ctx, ctx->input("weight_decays", &weight_decays));
    const auto n = static_cast<int64_t>(tables.size());
    OP_REQUIRES(ctx, weight_decays->NumElements() == n,
                InvalidInput(absl::StrCat("`weight_decays` must have one number a table, ", n,
                                          ". Received: ", weight_decays->NumElements())));
    tf::Tensor* generations = nullptr;
    tf::Tensor* record_floats = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output("generations", {n}, &generations));
    OP_REQUIRES_OK(ctx, ctx->allocate_output("record_floats", {n}, &record_floats));
    RuleOptions rule = rule_;
    OP_REQUIRES_OK(ctx, ReadConstants(ctx, constant_names_, &rule.constants));
    RuleLayout layout;
    TfExecutor executor(ctx);
    for (int64_t i = 0; i < n; ++i) {
      rule.weight_decay = weight_decays->flat<double>()(i);
      OP_REQUIRES_OK(ctx, ToTf(SetRule(tables[static_cast<size_t>(i)], rule, &executor, &layout)));
      generations->flat<int64_t>()(i) = layout.generation;
      record_floats->flat<int64_t>()(i) = layout.record_floats;
    }
    tf::Tensor* slot_names = nullptr;
    OP_REQUIRES_OK(
        ctx, ctx->allocate_output("slot_names", {static_cast<int64_t>(layout.slot_names.size())},
                                  &slot_names));
    for (size_t i = 0; i < layout.slot_names.size(); ++i) {
      slot_names->flat<tf::tstring>()(static_cast<int64_t>(i)) = layout.slot_names[i];
    }
  }

 private:
  RuleOptions rule_;
  std::vector<std::string> constant_names_;
};

const RegisterOnCpuAndGpu<SetRuleOp> kSetRule("KerasSparseSetRule",
                                              {"handles", "constants", "weight_decays",
                                               "generations", "record_floats", "slot_names"});

// KerasSparseSetRowLimit: sets how many rows tables may have.
REGISTER_OP("KerasSparseSetRowLimit")
    .Attr("N: int >= 1")
    .Attr("max_rows: int")
    .Attr("policy: string")
    .Attr("constant_names: list(string)")
    .Input("handles: N * resource")
    .Input("constants: double")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

class SetRowLimitOp : public tf::OpKernel {
 public:
  explicit SetRowLimitOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("max_rows", &max_rows_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("policy", &eviction_.policy));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("constant_names", &constant_names_));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    EvictionOptions eviction = eviction_;
    OP_REQUIRES_OK(ctx, ReadConstants(ctx, constant_names_, &eviction.constants));
    for (size_t i = 0; i < tables.size(); ++i) {
      std::unique_ptr<EvictionPolicy> policy;
      if (!eviction.policy.empty()) {
        OP_REQUIRES_OK(ctx, ToTf(EvictionPolicy::Create(eviction, &policy)));
      }
      OP_REQUIRES_OK(ctx, ToTf(SetRowLimit(tables[i], max_rows_, std::move(policy))));
    }
  }

 private:
  int64_t max_rows_ = 0;
  EvictionOptions eviction_;  // no policy if its name is empty
  std::vector<std::string> constant_names_;
};

const RegisterOnCpuAndGpu<SetRowLimitOp> kSetRowLimit("KerasSparseSetRowLimit",
                                                      {"handles", "constants"});

// KerasSparseSetInitialRows: sets the values of keys without a row.
REGISTER_OP("KerasSparseSetInitialRows")
    .Attr("N: int >= 1")
    .Attr("initializers: list(string)")
    .Attr("initializer_args: list(float)")
    .Attr("seeds: list(int)")
    .Attr("initializer_parts: list(int)")
    .Input("handles: N * resource")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

class SetInitialRowsOp : public tf::OpKernel {
 public:
  explicit SetInitialRowsOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadInitializers(ctx, &initializers_));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    for (size_t i = 0; i < tables.size(); ++i) {
      OP_REQUIRES_OK(ctx, ToTf(SetInitializer(tables[i], initializers_[i])));
    }
  }

 private:
  std::vector<InitializerOptions> initializers_;
};

const RegisterOnCpuAndGpu<SetInitialRowsOp> kSetInitialRows("KerasSparseSetInitialRows",
                                                            {"handles"});

}  // namespace keras_sparse
