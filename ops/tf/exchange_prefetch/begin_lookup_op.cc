// KerasSparseBeginLookup: the ids of many inputs -> the first messages of ranks in a step.
//
// If a stage has had the request's round, the message contains the rows that other ranks have
// requested ahead, and says that this rank's lookup is staged too. Otherwise it is the request.
#include <algorithm>
#include <memory>
#include <vector>

#include "ops/tf/binding/kernel.h"
#include "ops/tf/binding/tf_executor.h"
#include "ops/tf/exchange/exchange_op.h"
#include "ops/tf/exchange_prefetch/prefetch_exchange.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseBeginLookup")
    .Attr("N: int >= 1")
    .Attr("P: int >= 0")
    .KERAS_SPARSE_LAYOUT_ATTRS.KERAS_SPARSE_WIRE_ATTR.Attr("input_tables: list(int)")
    .Attr("combiners: list(string)")
    .Attr("are_joined: bool = false")
    .Attr("pools: list(bool)")
    .Input("area: resource")
    .Input("handles: P * resource")
    .Input("ids: N * int64")
    .Input("row_splits: N * int64")
    .Input("weights: N * float")
    // The request, as from KerasSparseRequestRows.
    .Output("words: int32")
    .Output("splits: int32")
    .Output("own_words: int32")
    .Output("reply_rows: int64")
    .Output("positions: N * int32")
    .Output("position_splits: N * int64")
    .Output("scales: N * float")
    // The first message to the other ranks.
    .Output("first_words: int32")
    .Output("first_splits: int32")
    .Output("first_own_words: int32")
    .Output("step: variant")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      int num_parts = 0;
      TF_RETURN_IF_ERROR(c->GetAttr("P", &num_parts));
      TF_RETURN_IF_ERROR(SetShapesOfRequest(c, 1 + num_parts));
      c->set_output(c->num_outputs() - 1, c->Scalar());
      return absl::OkStatus();
    });

// Does not wait for a round on a thread of TensorFlow's, because there may be only one, which the
// exchange of the round needs.
class BeginLookupOp : public InputsExchangeKernel<tf::AsyncOpKernel> {
 public:
  explicit BeginLookupOp(tf::OpKernelConstruction* ctx) : InputsExchangeKernel(ctx) {
    if (!ctx->status().ok()) return;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("pools", &pools_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("are_joined", &are_joined_));
  }

  void ComputeAsync(tf::OpKernelContext* ctx, DoneCallback done) override {
    std::shared_ptr<ExchangeArea> area;
    OP_REQUIRES_OK_ASYNC(ctx, FindOwned(ctx, tf::HandleFromInput(ctx, 0), &area), done);
    const bool may_be_staged = area->area->MayHaveAny();
    const auto begin = [this, ctx, done = std::move(done), area = *area, may_be_staged] {
      OP_REQUIRES_OK_ASYNC(ctx, BeginStep(ctx, area, may_be_staged), done);
      done();
    };
    if (may_be_staged) {
      ctx->env()->SchedClosure(begin);  // a thread of its own
    } else {
      begin();
    }
  }

 private:
  absl::Status BeginStep(tf::OpKernelContext* ctx, const ExchangeArea& area,
                         bool may_be_staged) const {
    TableList handles;
    LocalSlices parts{{}, pools_};
    TF_RETURN_IF_ERROR(handles.ReadOfAnyDevice(ctx));
    TF_RETURN_IF_ERROR(parts.Check(layout_, handles));
    const auto step = std::make_shared<LookupStep>();
    step->area = area;
    step->waiting = std::make_unique<StepClock::Waiting>(area.clock);
    RowRequestTensors request;
    BlockTensors first;
    const Status status = Begin(ctx, parts, may_be_staged, step.get(), &request, &first);
    if (!status.ok()) {
      if (step->prepared != nullptr) area.area->CountDropped();
      step->prepared = nullptr;
      TF_RETURN_IF_ERROR(request.MakeError(layout_, combiners_, status));
      first = request.blocks;
    }
    const auto n = static_cast<int>(combiners_.size());
    request.SetOutputs(ctx);
    first.SetOutputs(ctx, 4 + 3 * n);
    ctx->set_output(7 + 3 * n, LookupStepVariant{step}.ToTensor());
    return absl::OkStatus();
  }

  Status Begin(tf::OpKernelContext* ctx, const LocalSlices& parts, bool may_be_staged,
               LookupStep* step, RowRequestTensors* request, BlockTensors* first) const {
    std::vector<RequestInput> inputs;
    KERAS_SPARSE_RETURN_IF_ERROR(
        FromTf(ReadRequestInputs(ctx, input_tables_, combiners_, are_joined_, &inputs)));
    if (may_be_staged) KERAS_SPARSE_RETURN_IF_ERROR(TakePrepared(inputs, step));
    TfExecutor executor(ctx);
    if (step->prepared == nullptr) {
      KERAS_SPARSE_RETURN_IF_ERROR(request->Make(layout_, inputs, wire_type_, &executor));
      *first = request->blocks;
      return Status::Ok();
    }
    *request = step->prepared->content->request;
    return Serve(parts, step, &executor, first);
  }

  // Several lookups may be equal, or an iterator was abandoned: takes the oldest first.
  Status TakePrepared(const std::vector<RequestInput>& inputs, LookupStep* step) const {
    PrefetchBuffer& area = *step->area.area;
    const Fingerprint fingerprint = FingerprintOf(layout_, inputs);
    while (const std::shared_ptr<StagedLookup> lookup = area.Take(fingerprint)) {
      std::unique_ptr<StagedRows> rows;
      const Status used = lookup->Use(&rows, &step->waited_ns);
      if (!used.ok()) area.CountDropped();
      KERAS_SPARSE_RETURN_IF_ERROR(used);
      if (rows == nullptr) continue;
      step->prepared.reset(static_cast<PreparedRequest*>(rows.release()));
      step->hidden_ns = std::max<int64_t>(0, lookup->work_ns() - step->waited_ns);
      return Status::Ok();
    }
    area.CountMissed();
    return Status::Ok();
  }

  // Creates the first blocks of a request that has had its round: the rows for the others'
  // requests.
  Status Serve(const LocalSlices& parts, LookupStep* step, Executor* executor,
               BlockTensors* first) const {
    PrefetchExchange& exchange = *step->prepared->exchange;
    step->expected = exchange.rounds.Expect(step->prepared->round);
    Preparation preparation;
    preparation.kind = Preparation::kStaged;
    preparation.stage = exchange.number;
    preparation.round = step->prepared->round;
    preparation.expectation = step->expected.checksum();
    std::vector<Block> asked;
    preparation.staleness = FindAsked(parts, exchange, *step, &asked);
    BlockOutputs blocks(layout_);
    if (preparation.staleness >= 0) {
      std::unique_ptr<GatheredRows> served;
      KERAS_SPARSE_RETURN_IF_ERROR(GatheredRows::Create(layout_, asked, &served));
      KERAS_SPARSE_RETURN_IF_ERROR(FromTf(step->served.Make(layout_, *served, pools_)));
      if (!exchange.reads_rows) {
        ExchangeOnCpu place(executor);
        KERAS_SPARSE_RETURN_IF_ERROR(
            MakeReply(layout_, wire_type_, *served, parts, step->served, &place, &blocks));
        for (Word* block : blocks.Blocks()) preparation.Write(block);
        *first = blocks.tensors();
        return Status::Ok();
      }
    }
    KERAS_SPARSE_RETURN_IF_ERROR(FromTf(blocks.SetStatus(Status::Ok())));
    for (Word* block : blocks.Blocks()) preparation.Write(block);
    *first = blocks.tensors();
    return Status::Ok();
  }

  // Finds each rank's request in the round where it is expected. Returns how many updates the rows
  // read for them have missed; -1 if they must not be used, or if there are none.
  static int64_t FindAsked(const LocalSlices& parts, const PrefetchExchange& exchange,
                           const LookupStep& step, std::vector<Block>* asked) {
    std::vector<int64_t> versions;
    std::vector<uint32_t> num_updates;
    SeeTables(parts, &versions, &num_updates);
    int64_t staleness = 0;
    for (size_t r = 0; r < step.expected.contents.size(); ++r) {
      const auto* content = static_cast<const RoundContent*>(step.expected.contents[r].get());
      if (content == nullptr) return -1;
      asked->push_back(content->asked[r]);
      for (size_t p = 0; exchange.reads_rows && p < versions.size(); ++p) {
        const int64_t missed = num_updates[p] - content->num_updates[p];
        if (versions[p] - content->versions[p] != missed) return -1;
        staleness = std::max(staleness, missed);
      }
    }
    return staleness <= exchange.max_staleness() ? staleness : -1;
  }

  bool are_joined_ = false;
  std::vector<bool> pools_;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseBeginLookup").Device(tf::DEVICE_CPU), BeginLookupOp);

}  // namespace keras_sparse
