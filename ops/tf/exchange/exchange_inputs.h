// Shared code of the ops of an exchange between ranks.
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
#define KERAS_SPARSE_LAYOUT_ATTRS            \
  Attr("layout: list(int)")                  \
      .Attr("table_names: list(string)")     \
      .Attr("row_dtypes: list(string) = []") \
      .Attr("exchange: string")
// The attribute of ops that send or receive floats: see FloatType.
#define KERAS_SPARSE_WIRE_ATTR Attr("wire_dtype: string")
// The attribute of ops whose words may be in a GPU's memory: see BlockTensors.
#define KERAS_SPARSE_WORD_ATTR Attr("W: {int32, float} = DT_INT32")

namespace keras_sparse {

// The shapes of a reply: blocks, `served_rows`, and the vectors after them.
absl::Status ReplyShapes(tf::shape_inference::InferenceContext* c);

// Reads these attributes in an op's constructor.
absl::Status ReadLayout(tf::OpKernelConstruction* ctx, ExchangeLayout* layout);

// Reads `wire_dtype`.
absl::Status ReadWireType(tf::OpKernelConstruction* ctx, FloatType* type);

// Reads `input_tables`.
absl::Status ReadInputTables(tf::OpKernelConstruction* ctx, std::vector<size_t>* tables);

// Blocks as inputs and outputs of ops: the words for or from other ranks, their number for each
// rank, and the words of this rank's block for itself, which no exchange needs to copy. Words are
// of DT_INT32; in a GPU's memory of DT_FLOAT, because TensorFlow moves DT_INT32 to the CPU between
// functions.
struct BlockTensors {
  tf::Tensor words;
  tf::Tensor splits;  // 0 for this rank
  tf::Tensor own_words;

  // Reads the inputs with these names.
  absl::Status ReadInputs(tf::OpKernelContext* ctx);
  // Sets them as outputs `output` to `output + 2`.
  void SetOutputs(tf::OpKernelContext* ctx, int output) const;
};

// Returns the blocks of all ranks; the tensors own them.
absl::Status ReadBlocks(const BlockTensors& tensors, const ExchangeLayout& layout,
                        std::vector<Block>* blocks);
// As above, from an op's inputs.
absl::Status ReadBlocks(tf::OpKernelContext* ctx, const ExchangeLayout& layout,
                        std::vector<Block>* blocks);

// Returns DataLoss unless each block has this number of words.
absl::Status CheckReceivedWords(const std::vector<Block>& blocks,
                                const std::vector<int64_t>& num_words);

// The floats of such blocks, which follow the words of each.
class ReceivedFloats {
 public:
  // Returns DataLoss unless each block has the number of floats in `num_floats`.
  //   decodes  whether to convert them to float32, on the CPU
  absl::Status Read(const std::vector<Block>& blocks, int64_t header_words, FloatType type,
                    const std::vector<int64_t>& num_floats, bool decodes);
  // Start of each rank's floats. Read-only, despite the type, because their readers share it with
  // writers.
  const std::vector<void*>& floats() const { return floats_; }
  FloatType type() const { return type_; }

 private:
  tf::Tensor decoded_;
  std::vector<void*> floats_;
  FloatType type_{};
};

// The list inputs `positions`, `position_splits`, `scales` and `weights`, as KerasSparseRequestRows
// returns them, with `reply_rows`.
class CombinedInputs {
 public:
  absl::Status Read(tf::OpKernelContext* ctx, const ExchangeLayout& layout,
                    const std::vector<size_t>& tables, const std::vector<Combiner>& combiners);
  const std::vector<CombinedInput>& inputs() const { return inputs_; }
  const ResponseRows& rows() const { return *rows_; }
  // Reads the input `output_grads`: one of shape (num_bags, dim) per input, or a wider one in which
  // the input's gradient starts at its entry of `columns`.
  absl::Status ReadGradients(tf::OpKernelContext* ctx, const ExchangeLayout& layout,
                             const std::vector<int64_t>& columns,
                             std::vector<GradientRows>* grads) const;

 private:
  std::vector<CombinedInput> inputs_;
  std::unique_ptr<ResponseRows> rows_;
};

// Blocks that an op creates.
//
// The number of words is a power of two, and the last ones are padding. Horovod treats an exchange
// as the same in each step if its shapes are equal. Ranks then agree on it in one message, not in
// six.
class BlockOutputs {
 public:
  //   memory  a GPU's, to use instead of host memory
  explicit BlockOutputs(const ExchangeLayout& layout, tf::Allocator* memory = nullptr)
      : layout_(layout), memory_(memory) {}
  // Returns ResourceExhausted for more words than ranks may send: see CheckNumWords.
  absl::Status Allocate(const std::vector<int64_t>& num_words);
  // Allocates blocks for an error that is the same for all ranks.
  absl::Status AllocateStatus(const Status& status);
  // As AllocateStatus, and writes the error.
  // REQUIRES: host memory
  absl::Status SetStatus(const Status& status);
  // Returns the start of each rank's block.
  std::vector<Word*> Blocks();
  // Allocates blocks of header words followed by others, and returns the start of the latter.
  //   num_words  (num_ranks) after the header
  absl::Status AllocateWords(int64_t header_words, const std::vector<int64_t>& num_words,
                             std::vector<Word*>* words);
  // Allocates blocks of header words followed by floats, and returns the start of each block's
  // floats.
  absl::Status AllocateFloats(int64_t header_words, FloatType type,
                              const std::vector<int64_t>& num_floats, std::vector<void*>* floats);
  // As AllocateFloats, but the floats are float32, on the CPU, until EncodeFloats.
  absl::Status AllocateUncoded(int64_t header_words, FloatType type,
                               const std::vector<int64_t>& num_floats, std::vector<void*>* floats);
  void EncodeFloats(int64_t header_words, FloatType type, const std::vector<int64_t>& num_floats,
                    const std::vector<void*>& floats);
  const BlockTensors& tensors() const { return tensors_; }

 private:
  const ExchangeLayout& layout_;
  tf::Allocator* const memory_;
  BlockTensors tensors_;
  tf::Tensor uncoded_;  // floats, if the wire has another type
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_EXCHANGE_EXCHANGE_INPUTS_H_
