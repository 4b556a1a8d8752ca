// The lookups of one layer that are made ready by exchanges with other ranks.
#ifndef KERAS_SPARSE_OPS_TF_EXCHANGE_PREFETCH_PREFETCH_EXCHANGE_H_
#define KERAS_SPARSE_OPS_TF_EXCHANGE_PREFETCH_PREFETCH_EXCHANGE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/exchange/prefetch_rounds.h"
#include "ops/core/staging/lookup_prefetcher.h"
#include "ops/core/table/staged_records.h"
#include "ops/tf/exchange/row_request_tensors.h"
#include "ops/tf/exchange/served_row_tensors.h"
#include "tensorflow/core/framework/resource_base.h"
#include "tensorflow/core/framework/variant.h"
#include "tensorflow/core/framework/variant_tensor_data.h"

namespace keras_sparse {

// What the lookups of an exchange share, whatever stage makes them ready.
struct ExchangeArea {
  std::shared_ptr<PrefetchBuffer> area;
  std::shared_ptr<StepClock> clock;
};

// What ranks sent each other in a round.
class RoundContent : public PrefetchRounds::Content {
 public:
  RowRequestTensors request;  // this rank's; nothing if it has no lookup in the round
  BlockTensors received;
  std::vector<Block> asked;  // of each rank, in `received`
  std::vector<StagedRecords::Hold> holds;
  // Where rows are read ahead: those for this rank, and what its tables were when it read others'.
  BlockTensors reply;
  std::vector<int64_t> versions;
  std::vector<uint32_t> num_updates;
};

// Rounds, and what is done in them.
struct PrefetchExchange {
  PrefetchExchange(const ExchangeLayout& the_layout, ExchangeArea the_area)
      : layout(the_layout),
        area(std::move(the_area)),
        rounds(layout.num_ranks, layout.rank, area.clock) {}

  const ExchangeLayout layout;
  const ExchangeArea area;
  FloatType wire_type = FloatType::kFloat32;
  bool reads_rows = false;
  int64_t number = 0;  // among the stages of its exchange, the same on all ranks
  std::weak_ptr<LookupPrefetcher> stage;
  PrefetchRounds rounds;
  std::shared_ptr<RoundContent> content;  // the courier's alone: of the round it is in

  // What the headers of a round's requests say, so that ranks see that their modes are the same.
  Preparation header() const;

  // Updates of a table that rows may have missed when they are used.
  int64_t max_staleness() const;
};

// A lookup that has had its round.
class PreparedRequest : public StagedRows {
 public:
  std::shared_ptr<PrefetchExchange> exchange;
  int64_t round = 0;
  std::shared_ptr<RoundContent> content;
};

// What the ops of a step hand on, from its first exchange on.
struct LookupStep {
  std::unique_ptr<StepClock::Waiting> waiting;
  ExchangeArea area;
  std::unique_ptr<PreparedRequest> prepared;  // null if nothing is
  PrefetchRounds::Expectation expected;
  ServedIds served;  // that ranks asked for in the rounds that are expected
  int64_t waited_ns = 0;
  int64_t hidden_ns = 0;
};

// It, as a tensor.
struct LookupStepVariant {
  std::shared_ptr<LookupStep> step;

  static absl::Status Read(tf::OpKernelContext* ctx, std::shared_ptr<LookupStep>* step);
  tf::Tensor ToTensor() const;
  // What TensorFlow asks of a variant; it never leaves the process.
  std::string TypeName() const { return "keras_sparse::LookupStep"; }
  void Encode(tf::VariantTensorData* data) const { data->set_type_name(TypeName()); }
  bool Decode(const tf::VariantTensorData& /*data*/) { return false; }
};

// The stage's own resource: it ends with the last handle to it.
class ExchangeStageResource : public tf::ResourceBase {
 public:
  ExchangeStageResource(std::shared_ptr<LookupPrefetcher> stage,
                        std::shared_ptr<PrefetchExchange> exchange)
      : stage_(std::move(stage)), exchange_(std::move(exchange)) {}
  ~ExchangeStageResource() override {
    exchange_->rounds.Close();  // its worker may be waiting for a round
    stage_->Stop();
  }
  std::string DebugString() const override { return "ExchangeStage"; }
  const std::shared_ptr<LookupPrefetcher>& stage() const { return stage_; }
  const std::shared_ptr<PrefetchExchange>& exchange() const { return exchange_; }

 private:
  std::shared_ptr<LookupPrefetcher> stage_;
  std::shared_ptr<PrefetchExchange> exchange_;
};

// Of the inputs of a lookup over ranks.
Fingerprint FingerprintOf(const ExchangeLayout& layout, const std::vector<RequestInput>& inputs);

// Notes what own tables are now.
void SeeTables(const LocalSlices& parts, std::vector<int64_t>* versions,
               std::vector<uint32_t>* num_updates);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_EXCHANGE_PREFETCH_PREFETCH_EXCHANGE_H_
