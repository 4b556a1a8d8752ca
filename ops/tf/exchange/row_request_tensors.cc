#include "ops/tf/exchange/row_request_tensors.h"

#include <algorithm>
#include <memory>
#include <string>

#include "ops/tf/binding/lookup_outputs.h"
#include "ops/tf/binding/output_allocator.h"

namespace keras_sparse {

absl::Status ReadRequestInputs(tf::OpKernelContext* ctx, const std::vector<size_t>& tables,
                               const std::vector<Combiner>& combiners, bool are_joined,
                               std::vector<RequestInput>* inputs) {
  BagInputs bags;
  TF_RETURN_IF_ERROR(bags.Read(ctx, combiners));
  std::vector<RowsShape> shapes;
  for (size_t i = 0; i < combiners.size(); ++i) {
    inputs->push_back({tables[i], bags.ids(static_cast<int>(i)), bags.bags(i)});
    if (are_joined) shapes.push_back({bags.bags(i).num_bags, -1});
  }
  return CheckNumRows(shapes);
}

absl::Status SetShapesOfRequest(tf::shape_inference::InferenceContext* c, int ids) {
  TF_RETURN_IF_ERROR(ReplyShapes(c));
  std::vector<std::string> combiners;
  TF_RETURN_IF_ERROR(c->GetAttr("combiners", &combiners));
  const auto n = static_cast<int>(combiners.size());
  for (int i = 0; i < n; ++i) {
    c->set_output(4 + n + i, c->input(ids + n + i));
    if (combiners[static_cast<size_t>(i)] == "none") c->set_output(4 + i, c->input(ids + i));
  }
  return absl::OkStatus();
}

Status RowRequestTensors::Make(const ExchangeLayout& layout,
                               const std::vector<RequestInput>& inputs, FloatType wire_type,
                               Executor* executor, const Preparation& preparation) {
  std::unique_ptr<RowRequest> request;
  KERAS_SPARSE_RETURN_IF_ERROR(RowRequest::Create(layout, inputs, wire_type, executor, &request));
  std::vector<int64_t> num_words;
  for (size_t r = 0; r < layout.num_ranks; ++r) num_words.push_back(request->num_words(r));
  BlockOutputs outputs(layout);
  KERAS_SPARSE_RETURN_IF_ERROR(FromTf(outputs.Allocate(num_words)));
  KERAS_SPARSE_RETURN_IF_ERROR(FromTf(AllocateResponseRows(layout)));
  RowRequest::Result result;
  result.blocks = outputs.Blocks();
  result.reply_rows = reply_rows.flat<int64_t>().data();
  for (size_t i = 0; i < inputs.size(); ++i) {
    KERAS_SPARSE_RETURN_IF_ERROR(FromTf(AllocateInput(inputs[i].bags, request->num_positions(i))));
    const bool is_pooled = inputs[i].bags.combiner != Combiner::kNone;
    result.inputs.push_back(
        {reinterpret_cast<uint32_t*>(positions[i].flat<int32_t>().data()),
         is_pooled ? position_splits[i].flat<int64_t>().data() : nullptr,
         scales[i].NumElements() > 0 ? scales[i].flat<float>().data() : nullptr});
  }
  request->Write(result, executor);
  for (Word* block : result.blocks) preparation.Write(block);
  blocks = outputs.tensors();
  return Status::Ok();
}

absl::Status RowRequestTensors::MakeError(const ExchangeLayout& layout,
                                          const std::vector<Combiner>& combiners,
                                          const Status& status) {
  *this = RowRequestTensors();
  BlockOutputs outputs(layout);
  TF_RETURN_IF_ERROR(outputs.SetStatus(status));
  blocks = outputs.tensors();
  TF_RETURN_IF_ERROR(AllocateResponseRows(layout));
  for (const Combiner combiner : combiners) {
    Bags none;
    none.combiner = combiner;
    TF_RETURN_IF_ERROR(AllocateInput(none, 0));
  }
  return absl::OkStatus();
}

void RowRequestTensors::SetOutputs(tf::OpKernelContext* ctx) const {
  blocks.SetOutputs(ctx, 0);
  ctx->set_output(3, reply_rows);
  int output = 4;
  for (const auto* tensors : {&positions, &position_splits, &scales}) {
    for (const tf::Tensor& tensor : *tensors) ctx->set_output(output++, tensor);
  }
}

absl::Status RowRequestTensors::AllocateResponseRows(const ExchangeLayout& layout) {
  const tf::TensorShape shape(
      {2 * static_cast<int64_t>(layout.tables.size()), static_cast<int64_t>(layout.num_ranks)});
  TF_RETURN_IF_ERROR(MakeTensor(tf::DT_INT64, shape, &reply_rows));
  std::fill_n(reply_rows.flat<int64_t>().data(), shape.num_elements(), 0);
  return absl::OkStatus();
}

absl::Status RowRequestTensors::AllocateInput(const Bags& bags, int64_t num_positions) {
  const bool is_pooled = bags.combiner != Combiner::kNone;
  const int64_t num_splits = is_pooled ? bags.num_bags + 1 : 0;
  const int64_t num_scales = is_pooled && bags.weights == nullptr ? bags.num_bags : 0;
  for (auto* tensors : {&positions, &position_splits, &scales}) tensors->emplace_back();
  TF_RETURN_IF_ERROR(MakeTensor(tf::DT_INT32, {num_positions}, &positions.back()));
  TF_RETURN_IF_ERROR(MakeTensor(tf::DT_INT64, {num_splits}, &position_splits.back()));
  return MakeTensor(tf::DT_FLOAT, {num_scales}, &scales.back());
}

}  // namespace keras_sparse
