// TensorFlow's GPUs for the core.
#ifndef KERAS_SPARSE_OPS_TF_BINDING_TF_DEVICE_H_
#define KERAS_SPARSE_OPS_TF_BINDING_TF_DEVICE_H_

#include <memory>

#include "ops/core/device/device.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace keras_sparse {

// Returns whether an op runs on a GPU.
bool IsOnGpu(tensorflow::OpKernelContext* ctx);

// Returns an allocator for an op's outputs, valid for the life of the process. It allocates in the
// memory of the GPU that the op runs on. For an op on the CPU, it allocates pinned memory, from
// which a GPU copies by itself, or is null if the process has no GPU. Kernels of TensorFlow's
// stream may use this memory, whichever op allocates it.
tensorflow::Allocator* OutputMemory(tensorflow::OpKernelContext* ctx);

// Opens the GPU that an op runs on: with memory from TensorFlow's pool, which has taken the card,
// and TensorFlow's stream, in whose order other ops read the results of our kernels. Returns
// FailedPrecondition if the op does not run on a GPU.
absl::Status OpenTfDevice(tensorflow::OpKernelContext* ctx, std::shared_ptr<Device>* device);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_BINDING_TF_DEVICE_H_
