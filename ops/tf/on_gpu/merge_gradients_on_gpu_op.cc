// MergeGradientsOp on a GPU. Linked in builds with kernels for a GPU: TensorFlow places an op
// without tables on a GPU if a kernel is registered for it.
#include <memory>
#include <vector>

#include "ops/core/device/device.h"
#include "ops/core/gradients/device_merger.h"
#include "ops/tf/binding/tf_device.h"
#include "ops/tf/step/merge_gradients_op.h"

namespace keras_sparse {
namespace {

class MergeGradientsOnGpuOp : public MergeGradientsOp {
 public:
  using MergeGradientsOp::MergeGradientsOp;

 protected:
  absl::Status Merge(const std::vector<OutputGradient>& gradients,
                     tf::OpKernelContext* ctx) override {
    std::shared_ptr<Device> device;
    TF_RETURN_IF_ERROR(OpenTfDevice(ctx, &device));
    const DeviceScope scope(*device);
    cuda_impl::DeviceMerger merger;
    TF_RETURN_IF_ERROR(ToTf(cuda_impl::DeviceMerger::Create(gradients, device.get(), &merger)));
    std::vector<GradientMerger::Result> results;
    TF_RETURN_IF_ERROR(MakeResults(
        gradients, [&](size_t g) { return merger.num_entries(g); },
        [ctx](int output, const tf::TensorShape& shape, float** data) {
          tf::Tensor* tensor = nullptr;
          TF_RETURN_IF_ERROR(ctx->allocate_output(output, shape, &tensor));
          *data = tensor->flat<float>().data();
          return absl::OkStatus();
        },
        ctx, &results));
    TF_RETURN_IF_ERROR(ToTf(merger.Write(results)));
    return ToTf(device->CheckStarted());
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseMergeGradients").Device(tf::DEVICE_GPU),
                        MergeGradientsOnGpuOp);

}  // namespace
}  // namespace keras_sparse
