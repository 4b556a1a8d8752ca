// Ops that create the objects for prefetching lookups over ranks.
#include "ops/tf/binding/kernel.h"
#include "ops/tf/exchange_prefetch/prefetch_exchange.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace keras_sparse {

// KerasSparseCreateExchangeArea: tables -> the area in which lookups over ranks wait for their
// steps.
REGISTER_OP("KerasSparseCreateExchangeArea")
    .Attr("P: int >= 0")
    .Input("handles: P * resource")
    .Output("area: resource")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape);

static absl::Status ComputeCreateExchangeArea(tf::OpKernelContext* ctx) {
  TableList tables;
  TF_RETURN_IF_ERROR(tables.ReadOfAnyDevice(ctx));
  // The first table's statistics then include the area's counts.
  auto area = std::make_shared<ExchangeArea>(ExchangeArea{
      tables.size() > 0 ? tables.prefetch_buffer(0) : std::make_shared<PrefetchBuffer>(),
      std::make_shared<StepClock>()});
  SetHandle(ctx, 0, new OwnedResource<ExchangeArea>("an exchange area", std::move(area)));
  return absl::OkStatus();
}

REGISTER_KERNEL_BUILDER(Name("KerasSparseCreateExchangeArea").Device(tf::DEVICE_CPU),
                        CallOp<ComputeCreateExchangeArea>);

// KerasSparseCreateExchangeStage: options -> handles of a new stage of lookups over ranks: the
// stage's own, and its courier's.
REGISTER_OP("KerasSparseCreateExchangeStage")
    .KERAS_SPARSE_LAYOUT_ATTRS.KERAS_SPARSE_WIRE_ATTR.Attr("number: int >= 0")
    .Attr("capacity: int")
    .Attr("reads_rows: bool")
    .Input("area: resource")
    .Output("stage: resource")
    .Output("courier: resource")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Scalar());
      c->set_output(1, c->Scalar());
      return absl::OkStatus();
    });

class CreateExchangeStageOp : public tf::OpKernel {
 public:
  explicit CreateExchangeStageOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadLayout(ctx, &layout_));
    OP_REQUIRES_OK(ctx, ReadWireType(ctx, &wire_type_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("number", &number_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("capacity", &capacity_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("reads_rows", &reads_rows_));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    std::shared_ptr<ExchangeArea> area;
    OP_REQUIRES_OK(ctx, FindOwned(ctx, tf::HandleFromInput(ctx, 0), &area));
    const auto exchange = std::make_shared<PrefetchExchange>(layout_, *area);
    exchange->wire_type = wire_type_;
    exchange->reads_rows = reads_rows_;
    exchange->number = number_;
    // One thread, because a rank's lookups have their rounds one after the other.
    std::shared_ptr<LookupPrefetcher> stage;
    OP_REQUIRES_OK(ctx, ToTf(LookupPrefetcher::Open({1, capacity_}, &stage)));
    exchange->stage = stage;
    SetHandle(ctx, 0, new ExchangeStageResource(std::move(stage), exchange));
    SetHandle(ctx, 1, new OwnedResource<PrefetchExchange>("a courier", exchange));
  }

 private:
  ExchangeLayout layout_;
  FloatType wire_type_ = FloatType::kFloat32;
  int64_t number_ = 0;
  int64_t capacity_ = 0;
  bool reads_rows_ = false;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseCreateExchangeStage").Device(tf::DEVICE_CPU),
                        CreateExchangeStageOp);

}  // namespace keras_sparse
