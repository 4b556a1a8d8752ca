// A GPU of TensorFlow's for the core.
#ifndef KERAS_SPARSE_OPS_TF_BINDING_TF_DEVICE_H_
#define KERAS_SPARSE_OPS_TF_BINDING_TF_DEVICE_H_

#include <memory>

#include "ops/core/device/device.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace keras_sparse {

// Whether an op runs on a GPU.
bool IsOnGpu(tensorflow::OpKernelContext* ctx);

// Allocates what an op gives, for as long as the process lives: in the memory of the GPU that it
// runs on, or, where the process has one, in pinned memory, from which a GPU copies by itself. Null
// where there is no GPU. Kernels of TensorFlow's stream may use such memory, whoever gives them.
tensorflow::Allocator* OutputMemory(tensorflow::OpKernelContext* ctx);

// The GPU that an op runs on: with memory from TensorFlow's pool, which has taken the card, and
// TensorFlow's stream of work, in whose order other ops read what kernels of ours write.
// FailedPrecondition if it is none.
absl::Status OpenTfDevice(tensorflow::OpKernelContext* ctx, std::shared_ptr<Device>* device);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_BINDING_TF_DEVICE_H_
