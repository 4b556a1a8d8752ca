#include "ops/tf/binding/history_inputs.h"

#include "absl/strings/str_cat.h"
#include "ops/tf/binding/binding.h"

namespace keras_sparse {

namespace tf = tensorflow;

absl::Status ReadHistory(tf::OpKernelContext* ctx, RuleHistory* history) {
  const tf::Tensor* step = nullptr;
  const tf::Tensor* first_step = nullptr;
  const tf::Tensor* table_step = nullptr;
  const tf::Tensor* run_lengths = nullptr;
  const tf::Tensor* numbers = nullptr;
  TF_RETURN_IF_ERROR(ctx->input("step", &step));
  TF_RETURN_IF_ERROR(ctx->input("first_step", &first_step));
  TF_RETURN_IF_ERROR(ctx->input("table_step", &table_step));
  TF_RETURN_IF_ERROR(ctx->input("run_lengths", &run_lengths));
  TF_RETURN_IF_ERROR(ctx->input("numbers", &numbers));
  if (step->NumElements() != 1 || first_step->NumElements() != 1 ||
      table_step->NumElements() != 1 || numbers->dims() != 2) {
    return InvalidInput(absl::StrCat(
        "`step`, `first_step` and `table_step` must be one number each, `numbers` a matrix. "
        "Received: ",
        step->NumElements(), ", ", first_step->NumElements(), ", ", table_step->NumElements(),
        " and numbers.shape=", numbers->shape().DebugString()));
  }
  history->step = step->flat<int64_t>()(0);
  history->first_step = first_step->flat<int64_t>()(0);
  history->table_step = table_step->flat<uint32_t>()(0);
  history->num_numbers = numbers->dim_size(1);
  const int64_t* lengths = run_lengths->flat<int64_t>().data();
  history->run_lengths.assign(lengths, lengths + run_lengths->NumElements());
  const float* values = numbers->flat<float>().data();
  history->numbers.assign(values, values + numbers->NumElements());
  return absl::OkStatus();
}

}  // namespace keras_sparse
