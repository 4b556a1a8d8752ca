#include "ops/tf/exchange_inputs.h"

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "ops/tf/output_allocator.h"

namespace keras_sparse {

absl::Status ReadLayout(tf::OpKernelConstruction* ctx, ExchangeLayout* layout) {
  std::vector<int64_t> numbers;
  std::vector<std::string> names;
  TF_RETURN_IF_ERROR(ctx->GetAttr("layout", &numbers));
  TF_RETURN_IF_ERROR(ctx->GetAttr("table_names", &names));
  return ToTf(ExchangeLayout::Read(numbers, names, layout));
}

absl::Status ReadInputTables(tf::OpKernelConstruction* ctx, std::vector<size_t>* tables) {
  std::vector<int64_t> numbers;
  int n = 0;
  TF_RETURN_IF_ERROR(ctx->GetAttr("input_tables", &numbers));
  TF_RETURN_IF_ERROR(ctx->GetAttr("N", &n));
  if (static_cast<int>(numbers.size()) != n) {
    return InvalidInput(absl::StrCat("`input_tables` must have one number an input, ", n,
                                     ". Received: ", numbers.size()));
  }
  for (const int64_t number : numbers) tables->push_back(static_cast<size_t>(number));
  return absl::OkStatus();
}

absl::Status BlockInputs::Read(tf::OpKernelContext* ctx, size_t num_ranks) {
  const tf::Tensor* words_in = nullptr;
  const tf::Tensor* splits_in = nullptr;
  TF_RETURN_IF_ERROR(ctx->input("words", &words_in));
  TF_RETURN_IF_ERROR(ctx->input("splits", &splits_in));
  if (static_cast<size_t>(splits_in->NumElements()) != num_ranks) {
    return InvalidInput(absl::StrCat("`splits` must have one number a rank, ", num_ranks,
                                     ". Received: ", splits_in->NumElements()));
  }
  words = words_in->flat<int32_t>().data();
  num_words = words_in->NumElements();
  splits = splits_in->flat<int32_t>().data();
  return absl::OkStatus();
}

std::vector<float*> BlockInputs::Floats(size_t num_ranks, int64_t header_words) const {
  std::vector<float*> floats;
  for (const int64_t begin : BlockBorders(splits, num_ranks)) {
    // Read only, whatever the type says: replies are one type for who writes and who reads them.
    floats.push_back(reinterpret_cast<float*>(const_cast<Word*>(words)) + begin + header_words);
  }
  floats.pop_back();
  return floats;
}

absl::Status CombinedInputs::Read(tf::OpKernelContext* ctx, const ExchangeLayout& layout,
                                  const std::vector<size_t>& tables,
                                  const std::vector<Combiner>& combiners) {
  const tf::Tensor* reply_rows = nullptr;
  tf::OpInputList positions;
  tf::OpInputList splits;
  tf::OpInputList scales;
  tf::OpInputList weights;
  TF_RETURN_IF_ERROR(ctx->input("reply_rows", &reply_rows));
  TF_RETURN_IF_ERROR(ctx->input_list("positions", &positions));
  TF_RETURN_IF_ERROR(ctx->input_list("position_splits", &splits));
  TF_RETURN_IF_ERROR(ctx->input_list("scales", &scales));
  TF_RETURN_IF_ERROR(ctx->input_list("weights", &weights));
  if (static_cast<size_t>(reply_rows->NumElements()) != layout.tables.size() * layout.num_ranks) {
    return InvalidInput("`reply_rows` must be of shape (num_tables, num_ranks)");
  }
  for (int i = 0; i < positions.size(); ++i) {
    CombinedInput input{tables[i],
                        reinterpret_cast<const uint32_t*>(positions[i].flat<int>().data()), Bags(),
                        nullptr};
    input.bags.combiner = combiners[i];
    input.bags.num_ids = input.bags.num_bags = positions[i].NumElements();
    if (combiners[i] != Combiner::kNone) {
      input.bags.num_bags = splits[i].NumElements() - 1;
      input.bags.row_splits = splits[i].flat<int64_t>().data();
    }
    const int64_t num_scales = scales[i].NumElements();
    const int64_t num_weights = weights[i].NumElements();
    const bool fits = input.bags.num_bags >= 0 &&
                      (num_scales == 0 || num_scales == input.bags.num_bags) &&
                      (num_weights == 0 || num_weights == input.bags.num_ids);
    if (!fits) {
      return InvalidInput(
          absl::StrCat("`positions`, `position_splits`, `scales` and `weights` must be of one "
                       "request. Received: ",
                       input.bags.num_ids, ", ", input.bags.num_bags + 1, ", ", num_scales, ", ",
                       num_weights, " for input ", i));
    }
    if (num_scales != 0) input.scales = scales[i].flat<float>().data();
    if (num_weights != 0) input.bags.weights = weights[i].flat<float>().data();
    inputs_.push_back(input);
  }
  rows_ = std::make_unique<ReplyRows>(layout, reply_rows->flat<int64_t>().data());
  return ToTf(CheckInputs(layout, *rows_, inputs_));
}

absl::Status CombinedInputs::ReadGradients(tf::OpKernelContext* ctx, const ExchangeLayout& layout,
                                           std::vector<const float*>* grads) const {
  tf::OpInputList inputs;
  TF_RETURN_IF_ERROR(ctx->input_list("output_grads", &inputs));
  for (int i = 0; i < inputs.size(); ++i) {
    const auto k = static_cast<size_t>(i);
    const tf::TensorShape expected({inputs_[k].bags.num_bags, layout.tables[inputs_[k].table].dim});
    if (inputs[i].shape() != expected) {
      return InvalidInput(absl::StrCat("`output_grads` must be of shape ", expected.DebugString(),
                                       ". Received: output_grads[", i,
                                       "].shape=", inputs[i].shape().DebugString()));
    }
    grads->push_back(inputs[i].flat<float>().data());
  }
  return absl::OkStatus();
}

absl::Status BlockOutputs::Allocate(tf::OpKernelContext* ctx,
                                    const std::vector<int64_t>& num_words) {
  const auto num_ranks = static_cast<int64_t>(num_words.size());
  TF_RETURN_IF_ERROR(ctx->allocate_temp(tf::DT_INT32, {num_ranks}, &splits_));
  int64_t total = 0;
  for (size_t r = 0; r < num_words.size(); ++r) {
    if (num_words[r] > std::numeric_limits<int32_t>::max()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("a rank may send another one fewer than 2^31 words in a step; take smaller "
                       "batches. Received: ",
                       num_words[r]));
    }
    splits_.flat<int32_t>()(static_cast<int64_t>(r)) = static_cast<int32_t>(num_words[r]);
    total += num_words[r];
  }
  int64_t capacity = 1;
  while (capacity < total) capacity *= 2;
  return MakeTensor(ctx, tf::DT_INT32, {capacity}, &words_);
}

absl::Status BlockOutputs::SetStatus(tf::OpKernelContext* ctx, const ExchangeLayout& layout,
                                     const Status& status) {
  const std::vector<int64_t> num_words(layout.num_ranks, StatusWords(status));
  TF_RETURN_IF_ERROR(Allocate(ctx, num_words));
  for (Word* block : Blocks()) WriteStatus(status, layout.checksum, block);
  return absl::OkStatus();
}

std::vector<Word*> BlockOutputs::Blocks() {
  std::vector<Word*> blocks;
  Word* next = words_.flat<int32_t>().data();
  const auto splits = splits_.flat<int32_t>();
  for (int64_t r = 0; r < splits.size(); ++r) {
    blocks.push_back(next);
    next += splits(r);
  }
  return blocks;
}

void BlockOutputs::Set(tf::OpKernelContext* ctx, int output) const {
  ctx->set_output(output, words_);
  ctx->set_output(output + 1, splits_);
}

}  // namespace keras_sparse
