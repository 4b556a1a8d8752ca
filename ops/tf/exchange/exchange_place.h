// ExchangePlace: computes the data that ranks exchange, on the CPU or on a GPU.
#ifndef KERAS_SPARSE_OPS_TF_EXCHANGE_EXCHANGE_PLACE_H_
#define KERAS_SPARSE_OPS_TF_EXCHANGE_EXCHANGE_PLACE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/exchange/combine_rows.h"
#include "ops/core/exchange/message_format.h"
#include "ops/core/exchange/response_rows.h"
#include "ops/core/exchange/return_gradients.h"
#include "ops/core/operations/lookup.h"
#include "ops/tf/binding/binding.h"

namespace keras_sparse {

// The CPU, or the GPU that an op runs on. On a GPU, blocks of rows and of gradients, outputs and
// their gradients are in its memory; all else is in host memory.
//
// Each method calls the core's function of the same name for this place.
class ExchangePlace {
 public:
  using Columns = std::vector<std::vector<ResponseColumns>>;

  // Returns the place of an op.
  static absl::Status Of(tf::OpKernelContext* ctx, std::unique_ptr<ExchangePlace>* place);

  virtual ~ExchangePlace() = default;
  // The allocator of blocks and outputs. Null for host memory.
  tf::Allocator* memory() const { return memory_; }
  // A GPU computes with floats of the wire's type; for the CPU they are converted to float32.
  bool is_gpu() const { return memory_ != nullptr; }

  virtual Status CheckBlocks(const ExchangeLayout& layout, const std::vector<Block>& blocks) = 0;
  virtual Status WriteHeaders(const ExchangeLayout& layout, const std::vector<Word*>& blocks) = 0;
  virtual Status WriteErrors(const ExchangeLayout& layout, const Status& error,
                             const std::vector<Word*>& blocks) = 0;
  // Fills memory with zeros.
  virtual Status Clear(void* memory, int64_t bytes) = 0;
  // Calls LookupRowsToHost or LookupRowsFromHost.
  virtual Status Lookup(const std::vector<LookupRequest>& requests) = 0;
  virtual Status CombineRows(const ExchangeLayout& layout, const Columns& columns,
                             const std::vector<CombinedInput>& inputs,
                             const std::vector<OutputRows>& outputs) = 0;
  virtual Status CombineWeightsGradient(const ExchangeLayout& layout, const Columns& columns,
                                        const std::vector<CombinedInput>& inputs,
                                        const std::vector<GradientRows>& output_grads,
                                        const std::vector<float*>& weight_grads) = 0;
  virtual Status ReturnGradients(const ExchangeLayout& layout, const ResponseRows& rows,
                                 const std::vector<CombinedInput>& inputs,
                                 const std::vector<GradientRows>& output_grads, float scale,
                                 const Columns& columns) = 0;
  virtual Status GatherGradients(const ExchangeLayout& layout, const std::vector<void*>& blocks,
                                 FloatType type, const int64_t* served_rows,
                                 const std::vector<float*>& grads) = 0;

 protected:
  explicit ExchangePlace(tf::Allocator* memory) : memory_(memory) {}

 private:
  tf::Allocator* const memory_;
};

class ExchangeOnCpu : public ExchangePlace {
 public:
  // The executor must outlive the object.
  explicit ExchangeOnCpu(Executor* executor) : ExchangePlace(nullptr), executor_(executor) {}

  Status CheckBlocks(const ExchangeLayout& layout, const std::vector<Block>& blocks) override;
  Status WriteHeaders(const ExchangeLayout& layout, const std::vector<Word*>& blocks) override;
  Status WriteErrors(const ExchangeLayout& layout, const Status& error,
                     const std::vector<Word*>& blocks) override;
  Status Clear(void* memory, int64_t bytes) override;
  Status Lookup(const std::vector<LookupRequest>& requests) override;
  Status CombineRows(const ExchangeLayout& layout, const Columns& columns,
                     const std::vector<CombinedInput>& inputs,
                     const std::vector<OutputRows>& outputs) override;
  Status CombineWeightsGradient(const ExchangeLayout& layout, const Columns& columns,
                                const std::vector<CombinedInput>& inputs,
                                const std::vector<GradientRows>& output_grads,
                                const std::vector<float*>& weight_grads) override;
  Status ReturnGradients(const ExchangeLayout& layout, const ResponseRows& rows,
                         const std::vector<CombinedInput>& inputs,
                         const std::vector<GradientRows>& output_grads, float scale,
                         const Columns& columns) override;
  Status GatherGradients(const ExchangeLayout& layout, const std::vector<void*>& blocks,
                         FloatType type, const int64_t* served_rows,
                         const std::vector<float*>& grads) override;

 private:
  Executor* const executor_;
};

// In builds for GPUs, creates the place of an op that runs on a GPU.
using MakeExchangeOnGpu = absl::Status (*)(tf::OpKernelContext* ctx,
                                           std::unique_ptr<ExchangePlace>* place);
MakeExchangeOnGpu& make_exchange_on_gpu();

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_EXCHANGE_EXCHANGE_PLACE_H_
