// Defines the kernel of an op: a class, or a function if the op has no attributes, and the devices
// for which it is registered.
#ifndef KERAS_SPARSE_OPS_TF_BINDING_KERNEL_H_
#define KERAS_SPARSE_OPS_TF_BINDING_KERNEL_H_

#include <initializer_list>

#include "ops/tf/binding/binding.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/kernel_def_builder.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace keras_sparse {

// The shapes of outputs that are vectors of any length.
inline absl::Status VectorShapes(tf::shape_inference::InferenceContext* c) {
  for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->Vector(c->UnknownDim()));
  return absl::OkStatus();
}

// A kernel that calls a function.
template <absl::Status (*compute)(tf::OpKernelContext*)>
class CallOp : public tf::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tf::OpKernelContext* ctx) override { OP_REQUIRES_OK(ctx, compute(ctx)); }
};

// A kernel that calls a function with the tables of the op's `handles` input.
template <absl::Status (*compute)(tf::OpKernelContext*, const TableList&)>
class TablesOp : public tf::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    OP_REQUIRES_OK(ctx, compute(ctx, tables));
  }
};

// Sets a new resource as an output of the op; it is destroyed with its last handle.
template <typename Resource>
void SetHandle(tf::OpKernelContext* ctx, int output, Resource* resource) {
  tf::Tensor handle(tf::DT_RESOURCE, {});
  handle.scalar<tf::ResourceHandle>()() =
      tf::ResourceHandle::MakeRefCountingHandle(resource, ctx->device()->name());
  ctx->set_output(output, handle);
}

// Registers a kernel for the CPU and for GPUs. An op that only calls the core has its inputs and
// outputs in host memory on both, and runs where its tables are.
//   on_host     the inputs and outputs that are in host memory when the op is on a GPU
//   word_attr   the type of an exchange's words, if the op has any: see BlockTensors
template <typename Kernel>
class RegisterOnCpuAndGpu {
 public:
  RegisterOnCpuAndGpu(const char* op, std::initializer_list<const char*> on_host,
                      const char* word_attr = nullptr) {
    for (const char* device : {tf::DEVICE_CPU, tf::DEVICE_GPU}) {
      tf::KernelDefBuilder builder(op);
      builder.Device(device);
      const bool is_gpu = device == tf::DEVICE_GPU;
      if (word_attr != nullptr) {
        builder.TypeConstraint(word_attr, is_gpu ? tf::DT_FLOAT : tf::DT_INT32);
      }
      if (is_gpu) {
        for (const char* name : on_host) builder.HostMemory(name);
      }
      tf::kernel_factory::OpKernelRegistrar(
          builder.Build(), op,
          [](tf::OpKernelConstruction* ctx) -> tf::OpKernel* { return new Kernel(ctx); });
    }
  }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_BINDING_KERNEL_H_
