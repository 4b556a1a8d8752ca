// The ops of a courier's round, in order: KerasSparseNextRound, an exchange, KerasSparseServeRound,
// one more exchange if rows are read, and KerasSparseEndRound. KerasSparseCloseRounds ends the
// rounds together with the other ranks, KerasSparseFailRounds at once.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "ops/core/operations/prefetch_records.h"
#include "ops/tf/binding/kernel.h"
#include "ops/tf/exchange_prefetch/prefetch_exchange.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseNextRound")
    .Input("courier: resource")
    .Output("words: int32")
    .Output("splits: int32")
    .Output("own_words: int32")
    .Output("is_over: bool")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::UnknownShape);

// Returns when this rank should take part in the next round, or when there are no more rounds.
static absl::Status ComputeNextRound(tf::OpKernelContext* ctx) {
  std::shared_ptr<PrefetchExchange> courier;
  TF_RETURN_IF_ERROR(FindOwned(ctx, tf::HandleFromInput(ctx, 0), &courier));
  PrefetchExchange& exchange = *courier;
  PrefetchRounds::Turn turn = exchange.rounds.Next();
  exchange.content = std::static_pointer_cast<RoundContent>(std::move(turn.lookup));
  if (exchange.content == nullptr) {
    exchange.content = std::make_shared<RoundContent>();
    Preparation header = exchange.header();
    if (turn.is_leaving) header.kind = Preparation::kLeaving;
    InlineExecutor executor;
    TF_RETURN_IF_ERROR(ToTf(exchange.content->request.Make(exchange.layout, {}, exchange.wire_type,
                                                           &executor, header)));
  }
  exchange.content->request.blocks.SetOutputs(ctx, 0);
  ctx->set_output(3, tf::Tensor(turn.is_over));
  return absl::OkStatus();
}

REGISTER_KERNEL_BUILDER(Name("KerasSparseNextRound").Device(tf::DEVICE_CPU),
                        CallOp<ComputeNextRound>);

REGISTER_OP("KerasSparseServeRound")
    .Attr("P: int >= 0")
    .Attr("pools: list(bool)")
    .Input("courier: resource")
    .Input("handles: P * resource")
    .Input("words: int32")
    .Input("splits: int32")
    .Input("own_words: int32")
    .Output("reply: int32")
    .Output("reply_splits: int32")
    .Output("own_reply: int32")
    // Whether it was the last round, because the stages of all ranks have ended, or one has failed.
    .Output("is_last: bool")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      for (int i = 0; i < 3; ++i) c->set_output(i, c->Vector(c->UnknownDim()));
      c->set_output(3, c->Scalar());
      return absl::OkStatus();
    });

// Prepares the rows that other ranks request from this one.
class ServeRoundOp : public tf::OpKernel {
 public:
  explicit ServeRoundOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("pools", &pools_));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    std::shared_ptr<PrefetchExchange> courier;
    OP_REQUIRES_OK(ctx, FindOwned(ctx, tf::HandleFromInput(ctx, 0), &courier));
    PrefetchExchange& exchange = *courier;
    RoundContent& content = *exchange.content;
    LocalSlices parts{{}, pools_};
    TableList handles;
    OP_REQUIRES_OK(ctx, handles.ReadOfAnyDevice(ctx));
    OP_REQUIRES_OK(ctx, parts.Check(exchange.layout, handles));
    OP_REQUIRES_OK(ctx, content.received.ReadInputs(ctx));
    OP_REQUIRES_OK(ctx, ReadBlocks(content.received, exchange.layout, &content.asked));
    // All ranks alike see errors in these blocks.
    Status status = CheckBlocks(exchange.layout, content.asked);
    if (status.ok()) status = CheckHeaders(exchange, content.asked);
    if (!status.ok()) exchange.rounds.Fail(status);
    const bool is_last = !status.ok() || HaveAllLeft(content.asked);
    ctx->set_output(3, tf::Tensor(is_last));
    BlockOutputs reply(exchange.layout);
    if (is_last) {
      OP_REQUIRES_OK(ctx, reply.SetStatus(status));
    } else {
      OP_REQUIRES_OK(ctx, Serve(exchange, parts, &content, &reply));
    }
    reply.tensors().SetOutputs(ctx, 0);
  }

 private:
  static Status CheckHeaders(const PrefetchExchange& exchange, const std::vector<Block>& blocks) {
    for (const Block& block : blocks) {
      if (Preparation::Read(block.words).staleness == exchange.header().staleness) continue;
      return FailedPrecondition(
          "every rank must call `prefetch_lookups` with the same `mode`. Received: others");
    }
    return Status::Ok();
  }

  static bool HaveAllLeft(const std::vector<Block>& blocks) {
    return std::all_of(blocks.begin(), blocks.end(), [](const Block& block) {
      return Preparation::Read(block.words).kind == Preparation::kLeaving;
    });
  }

  absl::Status Serve(const PrefetchExchange& exchange, const LocalSlices& parts,
                     RoundContent* content, BlockOutputs* reply) const {
    std::unique_ptr<GatheredRows> served;
    ServedIds ids;
    TF_RETURN_IF_ERROR(ToTf(GatheredRows::Create(exchange.layout, content->asked, &served)));
    TF_RETURN_IF_ERROR(ids.Make(exchange.layout, *served, pools_));
    Status status = PrefetchRecords(parts, ids, &content->holds);
    // Without rows, an unreadable record is the error of the step, which reads it again.
    if (!exchange.reads_rows) return reply->SetStatus(Status::Ok());
    InlineExecutor executor;
    ExchangeOnCpu place(&executor);
    if (status.ok()) {
      status = MakeReply(exchange.layout, exchange.wire_type, *served, parts, ids, &place, reply,
                         &content->versions, &content->num_updates);
    }
    if (status.ok()) return absl::OkStatus();
    SeeTables(parts, &content->versions, &content->num_updates);
    return reply->SetStatus(status);  // the replies carry the error to all ranks
  }

  static Status PrefetchRecords(const LocalSlices& parts, const ServedIds& ids,
                                std::vector<StagedRecords::Hold>* holds) {
    std::vector<PrefetchIds> lists;
    for (size_t p = 0; p < parts.tables.size(); ++p) {
      if (!parts.tables[p]->options().has_lower_tiers()) continue;
      lists.push_back({parts.tables[p], ids.id_pointers()[p], ids.ids[p].NumElements()});
    }
    return keras_sparse::PrefetchRecords(lists, holds);
  }

  std::vector<bool> pools_;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseServeRound").Device(tf::DEVICE_CPU), ServeRoundOp);

REGISTER_OP("KerasSparseEndRound")
    .Input("courier: resource")
    .Input("words: int32")
    .Input("splits: int32")
    .Input("own_words: int32")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

// Keeps the received rows, if rows are read, and ends the round.
static absl::Status ComputeEndRound(tf::OpKernelContext* ctx) {
  std::shared_ptr<PrefetchExchange> courier;
  TF_RETURN_IF_ERROR(FindOwned(ctx, tf::HandleFromInput(ctx, 0), &courier));
  PrefetchExchange& exchange = *courier;
  if (exchange.reads_rows) TF_RETURN_IF_ERROR(exchange.content->reply.ReadInputs(ctx));
  exchange.rounds.End(std::move(exchange.content));
  return absl::OkStatus();
}

REGISTER_KERNEL_BUILDER(Name("KerasSparseEndRound").Device(tf::DEVICE_CPU),
                        CallOp<ComputeEndRound>);

REGISTER_OP("KerasSparseCloseRounds")
    .Input("courier: resource")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

// Ends the stage, as its last handle would: the courier continues until the stages of all ranks
// have ended.
static absl::Status ComputeCloseRounds(tf::OpKernelContext* ctx) {
  std::shared_ptr<PrefetchExchange> courier;
  TF_RETURN_IF_ERROR(FindOwned(ctx, tf::HandleFromInput(ctx, 0), &courier));
  courier->rounds.Close();
  return absl::OkStatus();
}

REGISTER_KERNEL_BUILDER(Name("KerasSparseCloseRounds").Device(tf::DEVICE_CPU),
                        CallOp<ComputeCloseRounds>);

REGISTER_OP("KerasSparseFailRounds")
    .Attr("message: string")
    .Input("courier: resource")
    // The message that tells the other ranks, in place of ids or rows.
    .Output("words: int32")
    .Output("splits: int32")
    .Output("own_words: int32")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::UnknownShape);

class FailRoundsOp : public tf::OpKernel {
 public:
  explicit FailRoundsOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("message", &message_));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    std::shared_ptr<PrefetchExchange> courier;
    OP_REQUIRES_OK(ctx, FindOwned(ctx, tf::HandleFromInput(ctx, 0), &courier));
    PrefetchExchange& exchange = *courier;
    const Status status = FailedPrecondition(message_);
    exchange.rounds.Fail(status);
    BlockOutputs blocks(exchange.layout);
    OP_REQUIRES_OK(ctx, blocks.SetStatus(status));
    blocks.tensors().SetOutputs(ctx, 0);
  }

 private:
  std::string message_;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseFailRounds").Device(tf::DEVICE_CPU), FailRoundsOp);

}  // namespace keras_sparse
