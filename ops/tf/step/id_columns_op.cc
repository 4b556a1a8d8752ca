// KerasSparseIdColumns: a matrix of ids -> the ids of each column, for KerasSparseLookup.
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/core/ids/id_columns.h"
#include "ops/tf/binding/kernel.h"
#include "ops/tf/binding/output_allocator.h"
#include "ops/tf/binding/tf_executor.h"

namespace keras_sparse {

// `are_bags`: whether the ids of each column are bags of one, (rows, 1) instead of (rows).
REGISTER_OP("KerasSparseIdColumns")
    .Attr("N: int >= 1")
    .Attr("T: {int32, int64}")
    .Attr("are_bags: list(bool)")
    .Input("matrix: T")
    .Output("ids: N * int64")
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      std::vector<bool> are_bags;
      TF_RETURN_IF_ERROR(c->GetAttr("are_bags", &are_bags));
      if (static_cast<int>(are_bags.size()) != c->num_outputs()) {
        return InvalidInput("`are_bags` must have one entry a column");
      }
      tf::shape_inference::ShapeHandle matrix;
      tf::shape_inference::DimensionHandle columns;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, &matrix));
      TF_RETURN_IF_ERROR(c->WithValue(c->Dim(matrix, 1), c->num_outputs(), &columns));
      const auto rows = c->Dim(matrix, 0);
      for (int i = 0; i < c->num_outputs(); ++i) {
        c->set_output(i, are_bags[static_cast<size_t>(i)] ? c->Matrix(rows, 1) : c->Vector(rows));
      }
      return absl::OkStatus();
    });

namespace {

class IdColumnsOp : public tf::OpKernel {
 public:
  explicit IdColumnsOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("are_bags", &are_bags_));
    OP_REQUIRES(ctx, static_cast<int>(are_bags_.size()) == num_outputs(),
                InvalidInput(absl::StrCat("`are_bags` must have one entry a column, ",
                                          num_outputs(), ". Received: ", are_bags_.size())));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    const tf::Tensor& matrix = ctx->input(0);
    OP_REQUIRES(
        ctx, matrix.dims() == 2 && matrix.dim_size(1) == num_outputs(),
        InvalidInput(absl::StrCat("`matrix` must have one column an output, ", num_outputs(),
                                  ". Received: matrix.shape=", matrix.shape().DebugString())));
    const int64_t rows = matrix.dim_size(0);
    const int64_t stride = IdColumnStride(rows);
    tf::Tensor columns;
    OP_REQUIRES_OK(ctx, MakeTensor(tf::DT_INT64, {num_outputs(), stride}, &columns));
    TfExecutor executor(ctx);
    if (matrix.dtype() == tf::DT_INT32) {
      Split<int32_t>(matrix, &columns, &executor);
    } else {
      Split<int64_t>(matrix, &columns, &executor);
    }
    // The columns share one buffer.
    for (int i = 0; i < num_outputs(); ++i) {
      const bool is_bag = are_bags_[static_cast<size_t>(i)];
      const tf::TensorShape shape = is_bag ? tf::TensorShape({rows, 1}) : tf::TensorShape({rows});
      tf::Tensor column;
      OP_REQUIRES(ctx, column.CopyFrom(columns.SubSlice(i).Slice(0, rows), shape),
                  absl::InternalError("a column must have one id a row"));
      ctx->set_output(i, column);
    }
  }

 private:
  template <typename Id>
  static void Split(const tf::Tensor& matrix, tf::Tensor* columns, Executor* executor) {
    SplitIdColumns(matrix.flat<Id>().data(), matrix.dim_size(0), matrix.dim_size(1),
                   columns->flat<int64_t>().data(), executor);
  }

  std::vector<bool> are_bags_;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseIdColumns").Device(tf::DEVICE_CPU), IdColumnsOp);

}  // namespace
}  // namespace keras_sparse
