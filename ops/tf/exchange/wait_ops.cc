// KerasSparse>BeginWait, KerasSparse>EndWait: pass tensors through, before and after an op that
// waits for other ranks, and record the waiting calls. KerasSparse>Waits reads the records.
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "ops/core/base/mutex.h"
#include "ops/tf/binding/kernel.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf = tensorflow;

namespace keras_sparse {
namespace {

absl::Status SameShapes(tf::shape_inference::InferenceContext* c) {
  for (int i = 0; i < c->num_inputs(); ++i) c->set_output(i, c->input(i));
  return absl::OkStatus();
}

// The waiting calls, by name. All methods may overlap.
class WaitBook {
 public:
  struct Wait {
    int64_t number;
    std::chrono::steady_clock::time_point begin;
  };

  static WaitBook& Get() {
    static auto* book = new WaitBook;  // never destroyed: a thread may wait while the process ends
    return *book;
  }

  void Begin(const std::string& call) {
    const MutexLock lock(mutex_);
    waits_[call] = {next_number_++, std::chrono::steady_clock::now()};
  }

  void End(const std::string& call) {
    const MutexLock lock(mutex_);
    waits_.erase(call);
  }

  std::map<std::string, Wait> waits() {
    const MutexLock lock(mutex_);
    return waits_;
  }

 private:
  Mutex mutex_;
  int64_t next_number_ GUARDED_BY(mutex_) = 0;
  std::map<std::string, Wait> waits_ GUARDED_BY(mutex_);
};

}  // namespace

// Both are stateless: in a function a stateful op would wait for the one before, and ranks that
// send in different orders would deadlock.
REGISTER_OP("KerasSparse>BeginWait")
    .Attr("call: string")
    .Attr("T: list(type) >= 1")
    .Input("tensors: T")
    .Output("same: T")
    .SetShapeFn(SameShapes);

REGISTER_OP("KerasSparse>EndWait")
    .Attr("call: string")
    .Attr("T: list(type) >= 1")
    .Input("tensors: T")
    .Output("same: T")
    .SetShapeFn(SameShapes);

// The names of the waiting calls, how many began before each, and for how long each has waited.
REGISTER_OP("KerasSparse>Waits")
    .Output("calls: string")
    .Output("numbers: int64")
    .Output("seconds: double")
    .SetIsStateful()
    .SetShapeFn(VectorShapes);

class WaitOp : public tf::OpKernel {
 public:
  explicit WaitOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("call", &call_));
    begins_ = type_string() == "KerasSparse>BeginWait";
  }

  void Compute(tf::OpKernelContext* ctx) override {
    for (int i = 0; i < ctx->num_inputs(); ++i) ctx->set_output(i, ctx->input(i));
    begins_ ? WaitBook::Get().Begin(call_) : WaitBook::Get().End(call_);
  }

 private:
  std::string call_;
  bool begins_ = false;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparse>BeginWait").Device(tf::DEVICE_CPU), WaitOp);
REGISTER_KERNEL_BUILDER(Name("KerasSparse>EndWait").Device(tf::DEVICE_CPU), WaitOp);
// Gradients stay in place, for a Horovod that reads them there.
const std::vector<tf::DataType> kFloatTypes = {tf::DT_FLOAT, tf::DT_HALF, tf::DT_BFLOAT16,
                                               tf::DT_DOUBLE};
REGISTER_KERNEL_BUILDER(
    Name("KerasSparse>BeginWait").Device(tf::DEVICE_GPU).TypeConstraint("T", kFloatTypes), WaitOp);
REGISTER_KERNEL_BUILDER(
    Name("KerasSparse>EndWait").Device(tf::DEVICE_GPU).TypeConstraint("T", kFloatTypes), WaitOp);

static absl::Status ComputeWaits(tf::OpKernelContext* ctx) {
  const auto waits = WaitBook::Get().waits();
  const auto now = std::chrono::steady_clock::now();
  const auto num_waits = static_cast<int64_t>(waits.size());
  tf::Tensor *calls = nullptr, *numbers = nullptr, *seconds = nullptr;
  TF_RETURN_IF_ERROR(ctx->allocate_output(0, {num_waits}, &calls));
  TF_RETURN_IF_ERROR(ctx->allocate_output(1, {num_waits}, &numbers));
  TF_RETURN_IF_ERROR(ctx->allocate_output(2, {num_waits}, &seconds));
  int64_t i = 0;
  for (const auto& [call, wait] : waits) {
    calls->flat<tf::tstring>()(i) = call;
    numbers->flat<int64_t>()(i) = wait.number;
    seconds->flat<double>()(i++) = std::chrono::duration<double>(now - wait.begin).count();
  }
  return absl::OkStatus();
}

REGISTER_KERNEL_BUILDER(Name("KerasSparse>Waits").Device(tf::DEVICE_CPU), CallOp<ComputeWaits>);

}  // namespace keras_sparse
