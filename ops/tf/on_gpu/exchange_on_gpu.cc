// The place of an exchange on a GPU. Linked in builds with kernels for a GPU.
#include <memory>
#include <vector>

#include "ops/core/device/device.h"
#include "ops/core/exchange/device_blocks.h"
#include "ops/tf/binding/tf_device.h"
#include "ops/tf/exchange/exchange_place.h"

namespace keras_sparse {
namespace {

class ExchangeOnGpu : public ExchangePlace {
 public:
  ExchangeOnGpu(tf::Allocator* memory, std::shared_ptr<Device> device)
      : ExchangePlace(memory), device_(std::move(device)), scope_(*device_) {}

  Status CheckBlocks(const ExchangeLayout& layout, const std::vector<Block>& blocks) override {
    return cuda_impl::CheckBlocks(layout, blocks, device_.get());
  }
  Status WriteHeaders(const ExchangeLayout& layout, const std::vector<Word*>& blocks) override {
    return Given(cuda_impl::WriteHeaders(layout, blocks, device_.get()));
  }
  Status WriteErrors(const ExchangeLayout& layout, const Status& error,
                     const std::vector<Word*>& blocks) override {
    return cuda_impl::WriteErrors(layout, error, blocks, device_.get());
  }
  Status Clear(void* memory, int64_t bytes) override { return device_->Fill(memory, 0, bytes); }
  Status Lookup(const std::vector<LookupRequest>& requests) override {
    for (const LookupRequest& each : requests) {
      if (each.table->options().storage.device == device_) continue;
      return InvalidArgument("rows that a GPU sends must be in its memory. Received: table '" +
                             each.table->name() + "', which is not");
    }
    InlineExecutor executor;  // for no requests
    return LookupRowsFromHost(requests, &executor);
  }
  Status CombineRows(const ExchangeLayout& layout, const Columns& columns,
                     const std::vector<CombinedInput>& inputs,
                     const std::vector<OutputRows>& outputs) override {
    return Given(cuda_impl::CombineRows(layout, columns, inputs, outputs, device_.get()));
  }
  Status CombineWeightsGradient(const ExchangeLayout& layout, const Columns& columns,
                                const std::vector<CombinedInput>& inputs,
                                const std::vector<GradientRows>& output_grads,
                                const std::vector<float*>& weight_grads) override {
    return Given(cuda_impl::CombineWeightsGradient(layout, columns, inputs, output_grads,
                                                   weight_grads, device_.get()));
  }
  Status ReturnGradients(const ExchangeLayout& layout, const ResponseRows& rows,
                         const std::vector<CombinedInput>& inputs,
                         const std::vector<GradientRows>& output_grads, float scale,
                         const Columns& columns) override {
    return Given(cuda_impl::ReturnGradients(layout, rows, inputs, output_grads, scale, columns,
                                            device_.get()));
  }
  Status GatherGradients(const ExchangeLayout& layout, const std::vector<void*>& blocks,
                         FloatType type, const int64_t* served_rows,
                         const std::vector<float*>& grads) override {
    return Given(cuda_impl::GatherGradients(layout, {blocks.begin(), blocks.end()}, type,
                                            served_rows, grads, device_.get()));
  }

 private:
  // No later call waits for the last kernels.
  Status Given(const Status& status) { return status.ok() ? device_->CheckStarted() : status; }

  const std::shared_ptr<Device> device_;
  const DeviceScope scope_;
};

const bool kRegistered = [] {
  make_exchange_on_gpu() = [](tf::OpKernelContext* ctx, std::unique_ptr<ExchangePlace>* place) {
    std::shared_ptr<Device> device;
    TF_RETURN_IF_ERROR(OpenTfDevice(ctx, &device));
    *place = std::make_unique<ExchangeOnGpu>(OutputMemory(ctx), std::move(device));
    return absl::OkStatus();
  };
  return true;
}();

}  // namespace
}  // namespace keras_sparse
