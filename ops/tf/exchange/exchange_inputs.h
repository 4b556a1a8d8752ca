// What the ops of an exchange between ranks share.
#ifndef KERAS_SPARSE_OPS_TF_EXCHANGE_EXCHANGE_INPUTS_H_
#define KERAS_SPARSE_OPS_TF_EXCHANGE_EXCHANGE_INPUTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/exchange/combine_rows.h"
#include "ops/core/exchange/exchange_layout.h"
#include "ops/core/exchange/message_format.h"
#include "ops/core/exchange/wire_dtype.h"
#include "ops/tf/binding/binding.h"
#include "tensorflow/core/framework/shape_inference.h"

// The attributes that describe a layout: see ExchangeLayout::Read.
#define KERAS_SPARSE_LAYOUT_ATTRS \
  Attr("layout: list(int)").Attr("table_names: list(string)").Attr("exchange: string")
// The attribute of ops that send or receive floats: see FloatType.
#define KERAS_SPARSE_WIRE_ATTR Attr("wire_dtype: string")
// That of ops whose words may be in a GPU's memory: see BlockTensors.
#define KERAS_SPARSE_WORD_ATTR Attr("W: {int32, float} = DT_INT32")

namespace keras_sparse {

// The shapes of a reply: blocks, `served_rows`, and what vectors follow them.
absl::Status ReplyShapes(tf::shape_inference::InferenceContext* c);

// Reads these attributes in an op's constructor.
absl::Status ReadLayout(tf::OpKernelConstruction* ctx, ExchangeLayout* layout);

// Reads `wire_dtype`.
absl::Status ReadWireType(tf::OpKernelConstruction* ctx, FloatType* type);

// Reads `input_tables`.
absl::Status ReadInputTables(tf::OpKernelConstruction* ctx, std::vector<size_t>* tables);

// Blocks as ops give and get them: the words for other ranks or from them, how many are of each,
// and the words of this rank's block for itself, which no exchange has to copy. Words are of
// DT_INT32; in a GPU's memory of DT_FLOAT, as TensorFlow takes DT_INT32 to the CPU between
// functions.
struct BlockTensors {
  tf::Tensor words;
  tf::Tensor splits;  // none of the words is this rank's
  tf::Tensor own_words;

  // Reads the inputs of these names.
  absl::Status ReadInputs(tf::OpKernelContext* ctx);
  // Makes them outputs `output` to `output + 2`.
  void SetOutputs(tf::OpKernelContext* ctx, int output) const;
};

// The blocks of all ranks, which the tensors keep.
absl::Status ReadBlocks(const BlockTensors& tensors, const ExchangeLayout& layout,
                        std::vector<Block>* blocks);
// The same of an op's inputs.
absl::Status ReadBlocks(tf::OpKernelContext* ctx, const ExchangeLayout& layout,
                        std::vector<Block>* blocks);

// The floats of such blocks, which follow the words of each.
class ReceivedFloats {
 public:
  // DataLoss unless each block has as many floats as `num_floats` says.
  //   decodes  whether to make them float32, on the CPU
  absl::Status Read(const std::vector<Block>& blocks, int64_t header_words, FloatType type,
                    const std::vector<int64_t>& num_floats, bool decodes);
  // Where those of each rank begin. They are to be read only, whatever the type says: replies are
  // of one type for who writes and who reads them.
  const std::vector<void*>& floats() const { return floats_; }
  FloatType type() const { return type_; }

 private:
  tf::Tensor decoded_;
  std::vector<void*> floats_;
  FloatType type_{};
};

// The list inputs `positions`, `position_splits`, `scales` and `weights`, as KerasSparseRequestRows
// gives them, with `reply_rows`.
class CombinedInputs {
 public:
  absl::Status Read(tf::OpKernelContext* ctx, const ExchangeLayout& layout,
                    const std::vector<size_t>& tables, const std::vector<Combiner>& combiners);
  const std::vector<CombinedInput>& inputs() const { return inputs_; }
  const ResponseRows& rows() const { return *rows_; }
  // The input `output_grads`: one of shape (num_bags, dim) for each input; or wider, and the
  // input's begins with its one of `columns`.
  absl::Status ReadGradients(tf::OpKernelContext* ctx, const ExchangeLayout& layout,
                             const std::vector<int64_t>& columns,
                             std::vector<GradientRows>* grads) const;

 private:
  std::vector<CombinedInput> inputs_;
  std::unique_ptr<ResponseRows> rows_;
};

// Blocks that an op makes.
//
// There are a power of two of words, of which the last ones mean nothing: to Horovod an exchange is
// the same in each step if the shapes are, and ranks then agree on it in one message, not in six.
class BlockOutputs {
 public:
  //   memory  a GPU's that they are to be in, instead of the CPU's
  explicit BlockOutputs(const ExchangeLayout& layout, tf::Allocator* memory = nullptr)
      : layout_(layout), memory_(memory) {}
  // ResourceExhausted for more words than ranks may send: see CheckNumWords.
  absl::Status Allocate(const std::vector<int64_t>& num_words);
  // For an error that is the same for all ranks.
  absl::Status AllocateStatus(const Status& status);
  // Writes it, too.
  // REQUIRES: the CPU's memory
  absl::Status SetStatus(const Status& status);
  // Where the block of each rank begins.
  std::vector<Word*> Blocks();
  // Makes blocks of header words and then floats, and says where the floats of each are to go.
  absl::Status AllocateFloats(int64_t header_words, FloatType type,
                              const std::vector<int64_t>& num_floats, std::vector<void*>* floats);
  // The same where they are to go as float32, on the CPU, until they are encoded.
  absl::Status AllocateUncoded(int64_t header_words, FloatType type,
                               const std::vector<int64_t>& num_floats, std::vector<void*>* floats);
  void EncodeFloats(int64_t header_words, FloatType type, const std::vector<int64_t>& num_floats,
                    const std::vector<void*>& floats);
  const BlockTensors& tensors() const { return tensors_; }

 private:
  const ExchangeLayout& layout_;
  tf::Allocator* const memory_;
  BlockTensors tensors_;
  tf::Tensor uncoded_;  // floats, where the wire has others
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_EXCHANGE_EXCHANGE_INPUTS_H_
