// The loops of floor.cc as two TensorFlow ops: what is between them and the same loops called alone
// is the call of a training step from Python, and the processor's caches after it.
//
// Compiled when a benchmark starts, and linked with the others.

#include <cstdint>
#include <cstring>
#include <vector>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

extern "C" {
void FloorLookup(void* handle, const int64_t* const* ids, const int64_t* const* splits,
                 const int64_t* num_ids, int64_t num_bags, float* const* outs, int stream);
void FloorApply(void* handle, int rule, const int64_t* const* ids, const int64_t* const* splits,
                const int64_t* num_ids, int64_t num_bags, const float* const* grads, int64_t step);
void* FloorMap(int64_t bytes, int huge);
}

namespace {

namespace tf = tensorflow;

// `group` is the address that FloorCreate gave; one without `splits` has one id a row of output.
REGISTER_OP("FloorLookup")
    .Attr("N: int >= 1")
    .Attr("M: int >= 0")
    .Attr("group: int")
    .Attr("rows: int")
    .Attr("dim: int")
    .Attr("stream: bool")
    .Input("ids: N * int64")
    .Input("splits: M * int64")
    .Output("outputs: N * float")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      int64_t rows = 0;
      int64_t dim = 0;
      TF_RETURN_IF_ERROR(c->GetAttr("rows", &rows));
      TF_RETURN_IF_ERROR(c->GetAttr("dim", &dim));
      for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->Matrix(rows, dim));
      return absl::OkStatus();
    });

REGISTER_OP("FloorApply")
    .Attr("N: int >= 1")
    .Attr("M: int >= 0")
    .Attr("group: int")
    .Attr("rule: int")
    .Input("ids: N * int64")
    .Input("splits: M * int64")
    .Input("grads: N * float")
    .Input("step: int64")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

// The inputs that both ops have, as the floor takes them.
struct Inputs {
  explicit Inputs(tf::OpKernelContext* ctx) {
    tf::OpInputList list;
    OP_REQUIRES_OK(ctx, ctx->input_list("ids", &list));
    for (const tf::Tensor& tensor : list) {
      ids.push_back(tensor.flat<int64_t>().data());
      num_ids.push_back(tensor.NumElements());
    }
    OP_REQUIRES_OK(ctx, ctx->input_list("splits", &list));
    for (const tf::Tensor& tensor : list) splits.push_back(tensor.flat<int64_t>().data());
    num_bags = splits.empty() ? num_ids[0] : list[0].NumElements() - 1;
  }

  const int64_t* const* split_pointers() const { return splits.empty() ? nullptr : splits.data(); }

  std::vector<const int64_t*> ids;
  std::vector<const int64_t*> splits;
  std::vector<int64_t> num_ids;
  int64_t num_bags = 0;
};

// An output that is written again at every step, as the floor alone does: on huge pages, never
// given back.
class KeptBuffer : public tf::TensorBuffer {
 public:
  explicit KeptBuffer(int64_t bytes) : TensorBuffer(FloorMap(bytes, 1)), bytes_(bytes) {}

  size_t size() const override { return static_cast<size_t>(bytes_); }
  TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(tf::AllocationDescription* /*proto*/) const override {}

 private:
  int64_t bytes_;
};

class FloorLookupOp : public tf::OpKernel {
 public:
  explicit FloorLookupOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("group", &group_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("stream", &stream_));
    int64_t rows = 0;
    int64_t dim = 0;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("rows", &rows));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dim", &dim));
    for (int i = 0; i < ctx->num_outputs(); ++i) {
      outputs_.emplace_back(tf::DT_FLOAT, tf::TensorShape({rows, dim}),
                            new KeptBuffer(rows * dim * static_cast<int64_t>(sizeof(float))));
    }
  }

  void Compute(tf::OpKernelContext* ctx) override {
    const Inputs inputs(ctx);
    std::vector<float*> outs;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      outs.push_back(outputs_[i].flat<float>().data());
      ctx->set_output(static_cast<int>(i), outputs_[i]);
    }
    FloorLookup(reinterpret_cast<void*>(group_), inputs.ids.data(), inputs.split_pointers(),
                inputs.num_ids.data(), inputs.num_bags, outs.data(), stream_);
  }

 private:
  int64_t group_ = 0;
  bool stream_ = false;
  std::vector<tf::Tensor> outputs_;
};

class FloorApplyOp : public tf::OpKernel {
 public:
  explicit FloorApplyOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("group", &group_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("rule", &rule_));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    const Inputs inputs(ctx);
    tf::OpInputList list;
    const tf::Tensor* step = nullptr;
    OP_REQUIRES_OK(ctx, ctx->input_list("grads", &list));
    OP_REQUIRES_OK(ctx, ctx->input("step", &step));
    std::vector<const float*> grads;
    for (const tf::Tensor& tensor : list) grads.push_back(tensor.flat<float>().data());
    FloorApply(reinterpret_cast<void*>(group_), rule_, inputs.ids.data(), inputs.split_pointers(),
               inputs.num_ids.data(), inputs.num_bags, grads.data(), step->scalar<int64_t>()());
  }

 private:
  int64_t group_ = 0;
  int32_t rule_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("FloorLookup").Device(tf::DEVICE_CPU), FloorLookupOp);
REGISTER_KERNEL_BUILDER(Name("FloorApply").Device(tf::DEVICE_CPU), FloorApplyOp);

}  // namespace
