// KerasSparseAgreeOnLookup: the first messages of ranks in a step -> how the step continues, the
// same on all ranks.
#include <algorithm>
#include <memory>
#include <vector>

#include "ops/tf/binding/kernel.h"
#include "ops/tf/exchange_prefetch/prefetch_exchange.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseAgreeOnLookup")
    .KERAS_SPARSE_LAYOUT_ATTRS.Input("step: variant")
    .Input("words: int32")
    .Input("splits: int32")
    .Input("own_words: int32")
    // 0: all ranks use their staged lookups. 1: the messages were the requests. 2: neither holds
    // for all.
    .Output("outcome: int32")
    .SetShapeFn(tf::shape_inference::ScalarShape);

// Stateless, because TensorFlow would make a stateful op wait for those of other exchanges; its
// output decides the next step, so it is computed in any case.
class AgreeOnLookupOp : public tf::OpKernel {
 public:
  explicit AgreeOnLookupOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadLayout(ctx, &layout_));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    std::shared_ptr<LookupStep> step;
    OP_REQUIRES_OK(ctx, LookupStepVariant::Read(ctx, &step));
    step->waiting = nullptr;
    std::vector<Block> blocks;
    OP_REQUIRES_OK(ctx, ReadBlocks(ctx, layout_, &blocks));
    OP_REQUIRES_OK(ctx, ToTf(CheckBlocks(layout_, blocks)));
    std::vector<Preparation> all;
    for (const Block& block : blocks) all.push_back(Preparation::Read(block.words));
    const Outcome outcome = Agree(all, step.get());
    if (outcome == Outcome::kStaged) {
      int64_t staleness = 0;
      for (const Preparation& each : all) staleness = std::max(staleness, each.staleness);
      step->area.area->CountUsed(step->waited_ns, step->hidden_ns, staleness);
    } else if (step->prepared != nullptr) {
      step->area.area->CountDropped();
      step->area.area->CountMissed();
    }
    tf::Tensor* output = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {}, &output));
    output->scalar<int32_t>()() = static_cast<int32_t>(outcome);
  }

 private:
  enum class Outcome { kStaged, kRequests, kNeither };

  static Outcome Agree(const std::vector<Preparation>& all, LookupStep* step) {
    const auto is_all = [&all](auto predicate) {
      return std::all_of(all.begin(), all.end(), predicate);
    };
    if (is_all([](const auto& each) { return each.kind == Preparation::kNone; })) {
      return Outcome::kRequests;
    }
    const Preparation& first = all.front();
    const bool are_of_one_stage = is_all([&first](const auto& each) {
      return each.kind == Preparation::kStaged && each.stage == first.stage;
    });
    if (!are_of_one_stage) return Outcome::kNeither;
    std::vector<int64_t> rounds;
    for (const Preparation& each : all) rounds.push_back(each.round);
    step->prepared->exchange->rounds.MarkUsed(rounds);
    const bool are_as_expected = is_all([&first](const auto& each) {
      return each.staleness >= 0 && each.expectation == first.expectation;
    });
    return are_as_expected && rounds == step->expected.rounds ? Outcome::kStaged
                                                              : Outcome::kNeither;
  }

  ExchangeLayout layout_;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseAgreeOnLookup").Device(tf::DEVICE_CPU), AgreeOnLookupOp);

}  // namespace keras_sparse
