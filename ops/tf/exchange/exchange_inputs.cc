#include "ops/tf/exchange/exchange_inputs.h"

#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/tf/binding/output_allocator.h"

namespace keras_sparse {

absl::Status ReplyShapes(tf::shape_inference::InferenceContext* c) {
  for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->Vector(c->UnknownDim()));
  c->set_output(3, c->Matrix(c->UnknownDim(), c->UnknownDim()));
  return absl::OkStatus();
}

absl::Status ReadLayout(tf::OpKernelConstruction* ctx, ExchangeLayout* layout) {
  std::vector<int64_t> numbers;
  std::vector<std::string> names;
  TF_RETURN_IF_ERROR(ctx->GetAttr("layout", &numbers));
  TF_RETURN_IF_ERROR(ctx->GetAttr("table_names", &names));
  std::string exchange;
  TF_RETURN_IF_ERROR(ctx->GetAttr("exchange", &exchange));
  std::vector<std::string> row_dtypes;
  TF_RETURN_IF_ERROR(ctx->GetAttr("row_dtypes", &row_dtypes));
  std::vector<FloatType> row_types(row_dtypes.size());
  for (size_t t = 0; t < row_dtypes.size(); ++t) {
    TF_RETURN_IF_ERROR(ToTf(ParseFloatType(row_dtypes[t], "row_dtypes", &row_types[t])));
  }
  return ToTf(ExchangeLayout::Read(numbers, names, exchange, row_types, layout));
}

absl::Status ReadWireType(tf::OpKernelConstruction* ctx, FloatType* type) {
  std::string name;
  TF_RETURN_IF_ERROR(ctx->GetAttr("wire_dtype", &name));
  return ToTf(ParseFloatType(name, "wire_dtype", type));
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

absl::Status BlockTensors::ReadInputs(tf::OpKernelContext* ctx) {
  const auto read = [ctx](const char* name, tf::Tensor* tensor) -> absl::Status {
    const tf::Tensor* input = nullptr;
    TF_RETURN_IF_ERROR(ctx->input(name, &input));
    *tensor = *input;
    return absl::OkStatus();
  };
  TF_RETURN_IF_ERROR(read("words", &words));
  TF_RETURN_IF_ERROR(read("splits", &splits));
  return read("own_words", &own_words);
}

void BlockTensors::SetOutputs(tf::OpKernelContext* ctx, int output) const {
  ctx->set_output(output, words);
  ctx->set_output(output + 1, splits);
  ctx->set_output(output + 2, own_words);
}

absl::Status ReadBlocks(const BlockTensors& tensors, const ExchangeLayout& layout,
                        std::vector<Block>* blocks) {
  const auto& [words, splits, own_words] = tensors;
  if (static_cast<size_t>(splits.NumElements()) != layout.num_ranks) {
    return InvalidInput(absl::StrCat("`splits` must have one number a rank, ", layout.num_ranks,
                                     ". Received: ", splits.NumElements()));
  }
  const Word* next = static_cast<const Word*>(words.data());
  int64_t left = words.NumElements();
  for (size_t r = 0; r < layout.num_ranks; ++r) {
    const int64_t n = splits.flat<int32_t>()(static_cast<int64_t>(r));
    if (n < 0 || n > left || (r == layout.rank && n != 0)) break;
    blocks->push_back({next, n});
    next += n;
    left -= n;
  }
  if (blocks->size() != layout.num_ranks || left != 0) {
    return InvalidInput(absl::StrCat(
        "`splits` must be the words of each other rank. Received: ", splits.SummarizeValue(-1),
        " for ", words.NumElements(), " words"));
  }
  (*blocks)[layout.rank] = {static_cast<const Word*>(own_words.data()), own_words.NumElements()};
  return absl::OkStatus();
}

absl::Status ReadBlocks(tf::OpKernelContext* ctx, const ExchangeLayout& layout,
                        std::vector<Block>* blocks) {
  BlockTensors tensors;  // inputs live as long as the op runs
  TF_RETURN_IF_ERROR(tensors.ReadInputs(ctx));
  return ReadBlocks(tensors, layout, blocks);
}

absl::Status CheckReceivedWords(const std::vector<Block>& blocks,
                                const std::vector<int64_t>& num_words) {
  for (size_t r = 0; r < num_words.size(); ++r) {
    if (blocks[r].num_words == num_words[r]) continue;
    return ToTf(Status(StatusCode::kDataLoss,
                       "a rank must send as many floats as it was asked for, in " +
                           std::to_string(num_words[r]) + " words. Received: " +
                           std::to_string(blocks[r].num_words) + " of rank " + std::to_string(r)));
  }
  return absl::OkStatus();
}

absl::Status ReceivedFloats::Read(const std::vector<Block>& blocks, int64_t header_words,
                                  FloatType type, const std::vector<int64_t>& num_floats,
                                  bool decodes) {
  std::vector<int64_t> num_words;
  for (const int64_t n : num_floats) num_words.push_back(header_words + FloatWords(type, n));
  TF_RETURN_IF_ERROR(CheckReceivedWords(blocks, num_words));
  const int64_t total = std::accumulate(num_floats.begin(), num_floats.end(), int64_t{0});
  decodes = decodes && type != FloatType::kFloat32;
  type_ = decodes ? FloatType::kFloat32 : type;
  if (decodes) TF_RETURN_IF_ERROR(MakeTensor(tf::DT_FLOAT, {total}, &decoded_));
  float* next = decodes ? decoded_.flat<float>().data() : nullptr;
  for (size_t r = 0; r < num_floats.size(); ++r) {
    const Word* words = blocks[r].words + header_words;
    if (!decodes) {
      floats_.push_back(const_cast<Word*>(words));
      continue;
    }
    DecodeFloats(type, words, num_floats[r], next);
    floats_.push_back(next);
    next += num_floats[r];
  }
  return absl::OkStatus();
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
  const size_t num_numbers = 2 * layout.tables.size() * layout.num_ranks;
  if (static_cast<size_t>(reply_rows->NumElements()) != num_numbers) {
    return InvalidInput("`reply_rows` must be of shape (2 * num_tables, num_ranks)");
  }
  for (int i = 0; i < positions.size(); ++i) {
    CombinedInput input{tables[i],
                        reinterpret_cast<const uint32_t*>(positions[i].flat<int>().data()), Bags()};
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
    if (num_scales != 0) input.bags.scales = scales[i].flat<float>().data();
    if (num_weights != 0) input.bags.weights = weights[i].flat<float>().data();
    inputs_.push_back(input);
  }
  rows_ = std::make_unique<ResponseRows>(layout, reply_rows->flat<int64_t>().data());
  return ToTf(CheckInputs(layout, *rows_, inputs_));
}

absl::Status CombinedInputs::ReadGradients(tf::OpKernelContext* ctx, const ExchangeLayout& layout,
                                           const std::vector<int64_t>& columns,
                                           std::vector<GradientRows>* grads) const {
  std::vector<RowsShape> shapes;
  for (const CombinedInput& input : inputs_) {
    shapes.push_back({input.bags.num_bags, layout.tables[input.table].dim});
  }
  return ReadOutputGradients(ctx, shapes, columns, grads);
}

absl::Status BlockOutputs::Allocate(const std::vector<int64_t>& num_words) {
  const auto num_ranks = static_cast<int64_t>(num_words.size());
  TF_RETURN_IF_ERROR(MakeTensor(tf::DT_INT32, {num_ranks}, &tensors_.splits));
  TF_RETURN_IF_ERROR(ToTf(CheckNumWords(layout_, num_words)));
  int64_t total = 0;
  for (size_t r = 0; r < num_words.size(); ++r) {
    const int64_t num_sent = r == layout_.rank ? 0 : num_words[r];
    tensors_.splits.flat<int32_t>()(static_cast<int64_t>(r)) = static_cast<int32_t>(num_sent);
    total += num_sent;
  }
  int64_t capacity = 1;
  while (capacity < total) capacity *= 2;
  const tf::DataType type = memory_ == nullptr ? tf::DT_INT32 : tf::DT_FLOAT;
  TF_RETURN_IF_ERROR(MakeTensor(type, {num_words[layout_.rank]}, &tensors_.own_words, memory_));
  return MakeTensor(type, {capacity}, &tensors_.words, memory_);
}

absl::Status BlockOutputs::AllocateStatus(const Status& status) {
  tensors_ = BlockTensors();  // first, because there may be no room for both
  return Allocate(std::vector<int64_t>(layout_.num_ranks, StatusWords(status)));
}

absl::Status BlockOutputs::SetStatus(const Status& status) {
  TF_RETURN_IF_ERROR(AllocateStatus(status));
  for (Word* block : Blocks()) WriteStatus(status, layout_.checksum, block);
  return absl::OkStatus();
}

std::vector<Word*> BlockOutputs::Blocks() {
  std::vector<Word*> blocks;
  Word* next = static_cast<Word*>(tensors_.words.data());
  const auto splits = tensors_.splits.flat<int32_t>();
  for (int64_t r = 0; r < splits.size(); ++r) {
    blocks.push_back(next);
    next += splits(r);
  }
  blocks[layout_.rank] = static_cast<Word*>(tensors_.own_words.data());
  return blocks;
}

absl::Status BlockOutputs::AllocateWords(int64_t header_words,
                                         const std::vector<int64_t>& num_words,
                                         std::vector<Word*>* words) {
  std::vector<int64_t> of_blocks;
  for (const int64_t n : num_words) of_blocks.push_back(header_words + n);
  TF_RETURN_IF_ERROR(Allocate(of_blocks));
  for (Word* block : Blocks()) words->push_back(block + header_words);
  return absl::OkStatus();
}

absl::Status BlockOutputs::AllocateFloats(int64_t header_words, FloatType type,
                                          const std::vector<int64_t>& num_floats,
                                          std::vector<void*>* floats) {
  std::vector<int64_t> num_words;
  for (const int64_t n : num_floats) num_words.push_back(FloatWords(type, n));
  std::vector<Word*> words;
  TF_RETURN_IF_ERROR(AllocateWords(header_words, num_words, &words));
  floats->assign(words.begin(), words.end());
  return absl::OkStatus();
}

absl::Status BlockOutputs::AllocateUncoded(int64_t header_words, FloatType type,
                                           const std::vector<int64_t>& num_floats,
                                           std::vector<void*>* floats) {
  std::vector<void*> coded;
  TF_RETURN_IF_ERROR(AllocateFloats(header_words, type, num_floats, &coded));
  if (type == FloatType::kFloat32) {
    *floats = std::move(coded);
    return absl::OkStatus();
  }
  const int64_t total = std::accumulate(num_floats.begin(), num_floats.end(), int64_t{0});
  TF_RETURN_IF_ERROR(MakeTensor(tf::DT_FLOAT, {total}, &uncoded_));
  float* next = uncoded_.flat<float>().data();
  for (const int64_t n : num_floats) {
    floats->push_back(next);
    next += n;
  }
  return absl::OkStatus();
}

void BlockOutputs::EncodeFloats(int64_t header_words, FloatType type,
                                const std::vector<int64_t>& num_floats,
                                const std::vector<void*>& floats) {
  if (type == FloatType::kFloat32) return;
  const std::vector<Word*> blocks = Blocks();
  for (size_t r = 0; r < blocks.size(); ++r) {
    keras_sparse::EncodeFloats(type, static_cast<const float*>(floats[r]), num_floats[r],
                               blocks[r] + header_words);
  }
}

}  // namespace keras_sparse
