// Shared code of the ops of ops/tf: the table resource, lists of inputs, and the conversion of
// errors. An op itself only checks shapes, allocates and makes one core call.
#ifndef KERAS_SPARSE_OPS_TF_BINDING_BINDING_H_
#define KERAS_SPARSE_OPS_TF_BINDING_BINDING_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/gradients/output_gradient.h"
#include "ops/core/ids/bags.h"
#include "ops/core/math/strided_rows.h"
#include "ops/core/staging/prefetch_buffer.h"
#include "ops/core/table/embedding_table.h"
#include "ops/tf/binding/error_prefix.h"
#include "ops/tf/binding/owned_resource.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace keras_sparse {

namespace tf = tensorflow;

// A table, and the buffer of staged lookups whose first table it is.
struct BoundTable {
  std::unique_ptr<EmbeddingTable> table;
  std::shared_ptr<PrefetchBuffer> prefetch_buffer = std::make_shared<PrefetchBuffer>();
};
using TableResource = OwnedResource<BoundTable>;

// Converts every error of the core for TensorFlow.
inline absl::Status ToTf(const Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string message = WithErrorPrefix(status.message());
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
      return absl::InvalidArgumentError(message);
    case StatusCode::kFailedPrecondition:
      return absl::FailedPreconditionError(message);
    case StatusCode::kResourceExhausted:
      return absl::ResourceExhaustedError(message);
    case StatusCode::kDataLoss:
      return absl::DataLossError(message);
    case StatusCode::kUnimplemented:
      return absl::UnimplementedError(message);
    case StatusCode::kOk:
      break;
  }
  return absl::InternalError(message);
}

// Returns the error of an input that the binding itself checks, before the core is called.
inline absl::Status InvalidInput(std::string message) {
  return ToTf(InvalidArgument(std::move(message)));
}

// `type` is DT_FLOAT, DT_HALF or DT_BFLOAT16.
inline FloatType FloatTypeOf(tf::DataType type) {
  if (type == tf::DT_HALF) return FloatType::kFloat16;
  return type == tf::DT_BFLOAT16 ? FloatType::kBFloat16 : FloatType::kFloat32;
}

inline tf::DataType DataTypeOf(FloatType type) {
  if (type == FloatType::kFloat16) return tf::DT_HALF;
  return type == FloatType::kBFloat16 ? tf::DT_BFLOAT16 : tf::DT_FLOAT;
}

// Converts an error of TensorFlow's for the core, to send it to other ranks.
inline Status FromTf(const absl::Status& status) {
  if (status.ok()) return Status::Ok();
  std::string message(status.message());
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return InvalidArgument(std::move(message));
    case absl::StatusCode::kResourceExhausted:
      return ResourceExhausted(std::move(message));
    default:
      return FailedPrecondition(std::move(message));
  }
}

// Finds the object of a handle; `object` keeps it alive.
template <typename T>
absl::Status FindOwned(tf::OpKernelContext* ctx, const tf::ResourceHandle& handle,
                       std::shared_ptr<T>* object) {
  tf::core::RefCountPtr<OwnedResource<T>> resource;
  TF_RETURN_IF_ERROR(tf::LookupResource(ctx, handle, &resource));
  return ToTf(resource->Find(object));
}

// The tables of an op's `handles` input, kept alive by this object.
class TableList {
 public:
  // Returns InvalidArgument if a table is on another device than the op.
  absl::Status Read(tf::OpKernelContext* ctx);
  // As Read, for ops of `exchange/any_device.cc`, whose tables may be on any device.
  absl::Status ReadOfAnyDevice(tf::OpKernelContext* ctx);
  size_t size() const { return tables_.size(); }
  EmbeddingTable* operator[](size_t i) const { return tables_[i]->table.get(); }
  const std::shared_ptr<PrefetchBuffer>& prefetch_buffer(size_t i) const {
    return tables_[i]->prefetch_buffer;
  }

 private:
  std::vector<std::shared_ptr<BoundTable>> tables_;
};

// Returns InvalidArgument unless there is a record, of any width, for each of `n` keys.
absl::Status CheckRecordsShape(const tf::Tensor& records, int64_t n);

// Creates output `i` from a vector.
template <typename T>
absl::Status CopyToOutput(const std::vector<T>& values, int i, tf::OpKernelContext* ctx) {
  tf::Tensor* output = nullptr;
  TF_RETURN_IF_ERROR(ctx->allocate_output(i, {static_cast<int64_t>(values.size())}, &output));
  std::copy(values.begin(), values.end(), output->flat<T>().data());
  return absl::OkStatus();
}

// Creates element `i` of a list output from a vector.
template <typename T>
absl::Status CopyToOutput(const std::vector<T>& values, const tf::TensorShape& shape, int i,
                          tf::OpOutputList* outputs) {
  tf::Tensor* output = nullptr;
  TF_RETURN_IF_ERROR(outputs->allocate(i, shape, &output));
  std::copy(values.begin(), values.end(), output->flat<T>().data());
  return absl::OkStatus();
}

// Reads `combiners` in an op's constructor.
absl::Status ReadCombiners(tf::OpKernelConstruction* ctx, std::vector<Combiner>* combiners);

// Reads `lookup_sizes` in an op's constructor: how many of its `n` inputs belong to each lookup.
absl::Status ReadLookupSizes(tf::OpKernelConstruction* ctx, size_t n, std::vector<int64_t>* sizes);

// Reads the input `constants`: one number for each of these names.
absl::Status ReadConstants(tf::OpKernelContext* ctx, const std::vector<std::string>& names,
                           std::map<std::string, double>* constants);

// Reads the input `batch`: the number of a batch in its data.
absl::Status ReadBatchNumber(tf::OpKernelContext* ctx, int64_t* batch);

// The list inputs `ids`, `row_splits` and `weights` of an op, with consistent shapes; the core
// checks their content.
class BagInputs {
 public:
  absl::Status Read(tf::OpKernelContext* ctx, const std::vector<Combiner>& combiners);
  const int64_t* ids(int i) const { return ids_[i].flat<int64_t>().data(); }
  const Bags& bags(size_t i) const { return bags_[i]; }
  // Holds references to `ids` and `row_splits` so that their buffers stay valid. TensorFlow never
  // writes to a tensor that shares its memory with another one, except by raw_ops.Inplace* and
  // variables of TensorFlow 1.
  std::shared_ptr<const void> owner(int i) const {
    return std::make_shared<std::array<tf::Tensor, 2>>(
        std::array<tf::Tensor, 2>{ids_[i], row_splits_[i]});
  }

 private:
  tf::OpInputList ids_;
  tf::OpInputList row_splits_;
  std::vector<Bags> bags_;
};

// Reads the input `output_grads`, the gradients of bags.
//   columns    the first column of each table's gradient in its input; if empty, the input has no
//              other columns
//   dims       of the tables; if empty, the width of their inputs
//   gradients  each (num_bags, dim)
absl::Status ReadOutputGradients(tf::OpKernelContext* ctx, const BagInputs& inputs,
                                 const std::vector<int64_t>& columns,
                                 const std::vector<int64_t>& dims,
                                 std::vector<OutputGradient>* gradients);

// The rows of one input of a lookup.
struct RowsShape {
  int64_t num_rows;
  int64_t dim;
};

// As above, for inputs of these shapes; a dim of -1 stands for the width of the input.
//   grads  of each input, with a stride
absl::Status ReadOutputGradients(tf::OpKernelContext* ctx, const std::vector<RowsShape>& shapes,
                                 const std::vector<int64_t>& columns,
                                 std::vector<GradientRows>* grads);

// Returns the width of each of an op's tables.
std::vector<int64_t> DimsOf(const TableList& tables);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_BINDING_BINDING_H_
