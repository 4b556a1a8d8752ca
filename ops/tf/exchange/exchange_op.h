// Base classes of the kernels of an exchange between ranks, with their attributes.
#ifndef KERAS_SPARSE_OPS_TF_EXCHANGE_EXCHANGE_OP_H_
#define KERAS_SPARSE_OPS_TF_EXCHANGE_EXCHANGE_OP_H_

#include <vector>

#include "ops/tf/exchange/exchange_inputs.h"
#include "ops/tf/exchange/exchange_place.h"

namespace keras_sparse {

// A kernel that sends or receives floats of the tables of a layout.
//   Kernel  tf::OpKernel or tf::AsyncOpKernel
template <typename Kernel>
class ExchangeKernel : public Kernel {
 protected:
  explicit ExchangeKernel(tf::OpKernelConstruction* ctx) : Kernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadLayout(ctx, &layout_));
    OP_REQUIRES_OK(ctx, ReadWireType(ctx, &wire_type_));
  }

  // Creates blocks for an error of this rank: they carry the error to all ranks, which wait for the
  // blocks.
  absl::Status SendError(const Status& error, ExchangePlace* place, BlockOutputs* blocks) const {
    TF_RETURN_IF_ERROR(blocks->AllocateStatus(error));
    return ToTf(place->WriteErrors(layout_, error, blocks->Blocks()));
  }

  ExchangeLayout layout_;
  FloatType wire_type_ = FloatType::kFloat32;
};

// An exchange kernel that reads the inputs of a lookup.
template <typename Kernel>
class InputsExchangeKernel : public ExchangeKernel<Kernel> {
 protected:
  explicit InputsExchangeKernel(tf::OpKernelConstruction* ctx) : ExchangeKernel<Kernel>(ctx) {
    if (!ctx->status().ok()) return;
    OP_REQUIRES_OK(ctx, ReadInputTables(ctx, &input_tables_));
    OP_REQUIRES_OK(ctx, ReadCombiners(ctx, &combiners_));
  }

  absl::Status ReadInputs(tf::OpKernelContext* ctx, CombinedInputs* inputs) const {
    return inputs->Read(ctx, this->layout_, input_tables_, combiners_);
  }

  // Reads the inputs and the replies of all ranks. First returns the error that a rank has sent in
  // place of a reply, because the inputs are meaningless then.
  absl::Status ReadReplies(tf::OpKernelContext* ctx, ExchangePlace* place, CombinedInputs* inputs,
                           ResponseRows::Columns* replies) const {
    std::vector<Block> blocks;
    TF_RETURN_IF_ERROR(ReadBlocks(ctx, this->layout_, &blocks));
    TF_RETURN_IF_ERROR(ToTf(place->CheckBlocks(this->layout_, blocks)));
    TF_RETURN_IF_ERROR(ReadInputs(ctx, inputs));
    std::vector<int64_t> num_words = inputs->rows().ReplyWords(this->wire_type_);
    for (int64_t& n : num_words) n += kHeaderWords;
    TF_RETURN_IF_ERROR(CheckReceivedWords(blocks, num_words));
    std::vector<void*> words;
    for (const Block& block : blocks)
      words.push_back(const_cast<Word*>(block.words) + kHeaderWords);
    *replies = inputs->rows().ReplyColumns(words, this->wire_type_);
    return absl::OkStatus();
  }

  std::vector<size_t> input_tables_;
  std::vector<Combiner> combiners_;
};

using ExchangeOp = ExchangeKernel<tf::OpKernel>;
using InputsExchangeOp = InputsExchangeKernel<tf::OpKernel>;

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_EXCHANGE_EXCHANGE_OP_H_
