#include "ops/tf/exchange/exchange_place.h"

#include <cstring>

#include "ops/tf/binding/tf_device.h"
#include "ops/tf/binding/tf_executor.h"

namespace keras_sparse {
namespace {

// Uses the threads of an op.
class OfOp : private TfExecutor, public ExchangeOnCpu {
 public:
  explicit OfOp(tf::OpKernelContext* ctx) : TfExecutor(ctx), ExchangeOnCpu(this) {}
};

}  // namespace

MakeExchangeOnGpu& make_exchange_on_gpu() {
  static MakeExchangeOnGpu make = nullptr;
  return make;
}

absl::Status ExchangePlace::Of(tf::OpKernelContext* ctx, std::unique_ptr<ExchangePlace>* place) {
  if (!IsOnGpu(ctx)) {
    *place = std::make_unique<OfOp>(ctx);
    return absl::OkStatus();
  }
  if (make_exchange_on_gpu() != nullptr) return make_exchange_on_gpu()(ctx, place);
  return ToTf(Status(StatusCode::kUnimplemented,
                     "what ranks exchange must be on the CPU in a build without CUDA. Received: " +
                         ctx->device()->name()));
}

Status ExchangeOnCpu::CheckBlocks(const ExchangeLayout& layout, const std::vector<Block>& blocks) {
  return keras_sparse::CheckBlocks(layout, blocks);
}

Status ExchangeOnCpu::WriteHeaders(const ExchangeLayout& layout, const std::vector<Word*>& blocks) {
  return WriteErrors(layout, Status::Ok(), blocks);
}

Status ExchangeOnCpu::WriteErrors(const ExchangeLayout& layout, const Status& error,
                                  const std::vector<Word*>& blocks) {
  for (Word* block : blocks) WriteStatus(error, layout.checksum, block);
  return Status::Ok();
}

Status ExchangeOnCpu::Clear(void* memory, int64_t bytes) {
  std::memset(memory, 0, static_cast<size_t>(bytes));
  return Status::Ok();
}

Status ExchangeOnCpu::Lookup(const std::vector<LookupRequest>& requests) {
  return LookupRowsToHost(requests, executor_);
}

Status ExchangeOnCpu::CombineRows(const ExchangeLayout& layout, const Columns& columns,
                                  const std::vector<CombinedInput>& inputs,
                                  const std::vector<OutputRows>& outputs) {
  keras_sparse::CombineRows(layout, columns, inputs, outputs, executor_);
  return Status::Ok();
}

Status ExchangeOnCpu::CombineWeightsGradient(const ExchangeLayout& layout, const Columns& columns,
                                             const std::vector<CombinedInput>& inputs,
                                             const std::vector<GradientRows>& output_grads,
                                             const std::vector<float*>& weight_grads) {
  keras_sparse::CombineWeightsGradient(layout, columns, inputs, output_grads, weight_grads,
                                       executor_);
  return Status::Ok();
}

Status ExchangeOnCpu::ReturnGradients(const ExchangeLayout& layout, const ResponseRows& rows,
                                      const std::vector<CombinedInput>& inputs,
                                      const std::vector<GradientRows>& output_grads, float scale,
                                      const Columns& columns) {
  keras_sparse::ReturnGradients(layout, rows, inputs, output_grads, scale, columns, executor_);
  return Status::Ok();
}

Status ExchangeOnCpu::GatherGradients(const ExchangeLayout& layout,
                                      const std::vector<void*>& blocks, FloatType,
                                      const int64_t* served_rows,
                                      const std::vector<float*>& grads) {
  std::vector<const float*> floats;
  for (const void* block : blocks) floats.push_back(static_cast<const float*>(block));
  keras_sparse::GatherGradients(layout, floats, served_rows, grads, executor_);
  return Status::Ok();
}

}  // namespace keras_sparse
