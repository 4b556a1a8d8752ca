// What every op of ops/tf shares: the table resource, the executor over TensorFlow's threads, and
// the conversion of errors. An op itself only checks shapes, allocates and makes one core call.
#ifndef KERAS_SPARSE_OPS_TF_BINDING_H_
#define KERAS_SPARSE_OPS_TF_BINDING_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/bags.h"
#include "ops/core/embedding_table.h"
#include "ops/core/executor.h"
#include "ops/core/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace keras_sparse {

namespace tf = tensorflow;

// A table as TensorFlow holds it: it ends with the last handle to it.
class TableResource : public tf::ResourceBase {
 public:
  explicit TableResource(std::unique_ptr<EmbeddingTable> table) : table_(std::move(table)) {}
  std::string DebugString() const override { return "EmbeddingTable " + table_->name(); }
  EmbeddingTable* table() const { return table_.get(); }

 private:
  std::unique_ptr<EmbeddingTable> table_;
};

inline absl::Status ToTf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return absl::OkStatus();
    case StatusCode::kInvalidArgument:
      return absl::InvalidArgumentError(status.message());
    case StatusCode::kFailedPrecondition:
      return absl::FailedPreconditionError(status.message());
    case StatusCode::kResourceExhausted:
      return absl::ResourceExhaustedError(status.message());
    case StatusCode::kDataLoss:
      return absl::DataLossError(status.message());
    case StatusCode::kUnimplemented:
      return absl::UnimplementedError(status.message());
  }
  return absl::InternalError(status.message());
}

// Runs core loops on the pool that TensorFlow's own kernels use.
class TfExecutor : public Executor {
 public:
  explicit TfExecutor(tf::OpKernelContext* ctx)
      : pool_(ctx->device()->tensorflow_cpu_worker_threads()->workers) {}

  void ParallelFor(int64_t total, int64_t unit_cost,
                   const std::function<void(int64_t, int64_t)>& body) override {
    if (total <= 0) return;
    // Not the pool's own cost model: it cuts into about four blocks a thread and rounds up, which
    // leaves a thread idle for a fifth of the time where units are few and long.
    const int64_t block_cost =
        std::max(total * unit_cost / (kBlocksPerThread * pool_->NumThreads()), kMinBlockCost);
    const int64_t block =
        std::clamp(block_cost / std::max<int64_t>(unit_cost, 1), int64_t{1}, total);
    using Params = tsl::thread::ThreadPool::SchedulingParams;
    pool_->ParallelFor(total, Params::Fixed(block), body);
  }

 private:
  static constexpr int64_t kBlocksPerThread = 16;
  static constexpr int64_t kMinBlockCost = 40000;  // nanoseconds: handing a block over costs a few

  tsl::thread::ThreadPool* pool_;
};

// The tables of an op's `handles` input, kept alive while this exists.
class TableList {
 public:
  absl::Status Read(tf::OpKernelContext* ctx);
  size_t size() const { return resources_.size(); }
  EmbeddingTable* operator[](size_t i) const { return resources_[i]->table(); }

 private:
  std::vector<tf::core::RefCountPtr<TableResource>> resources_;
};

// Reads `combiners` in an op's constructor.
absl::Status ReadCombiners(tf::OpKernelConstruction* ctx, std::vector<Combiner>* combiners);

// The list inputs `ids`, `row_splits` and `weights` of an op, checked against each other; the core
// checks what is in them.
class BagInputs {
 public:
  absl::Status Read(tf::OpKernelContext* ctx, const std::vector<Combiner>& combiners);
  const int64_t* ids(int i) const { return ids_[i].flat<int64_t>().data(); }
  const Bags& bags(size_t i) const { return bags_[i]; }

 private:
  tf::OpInputList ids_;
  std::vector<Bags> bags_;
};

// The gradients that belong to bags: each (num_bags, dim).
absl::Status CheckOutputGradients(const tf::OpInputList& grads, const BagInputs& inputs);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_BINDING_H_
