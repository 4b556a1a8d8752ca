// PrefetchExchange: the lookups of one layer that are prepared by exchanges with other ranks.
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

// State that the lookups of an exchange share, whichever stage prepares them.
struct ExchangeArea {
  std::shared_ptr<PrefetchBuffer> area;
  std::shared_ptr<StepClock> clock;
};

// The data that ranks have sent each other in a round.
class RoundContent : public PrefetchRounds::Content {
 public:
  RowRequestTensors request;  // this rank's; empty if it has no lookup in the round
  BlockTensors received;
  std::vector<Block> asked;  // each rank's request, in `received`
  std::vector<StagedRecords::Hold> holds;
  // If rows are read ahead: the rows for this rank, and the versions of its tables when it read
  // others' rows.
  BlockTensors reply;
  std::vector<int64_t> versions;
  std::vector<uint32_t> num_updates;
};

// The rounds, and the work of each round.
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
  std::shared_ptr<RoundContent> content;  // of the courier's current round; used by it alone

  // The header of a round's requests, by which ranks see that their modes are equal.
  Preparation header() const;

  // Maximum number of a table's updates that rows may have missed when they are used.
  int64_t max_staleness() const;
};

// A lookup that has had its round.
class PreparedRequest : public StagedRows {
 public:
  std::shared_ptr<PrefetchExchange> exchange;
  int64_t round = 0;
  std::shared_ptr<RoundContent> content;
};

// The state that the ops of a step pass on, starting with its first exchange.
struct LookupStep {
  std::unique_ptr<StepClock::Waiting> waiting;
  ExchangeArea area;
  std::unique_ptr<PreparedRequest> prepared;  // null if no lookup is prepared
  PrefetchRounds::Expectation expected;
  ServedIds served;  // requested by ranks in the expected rounds
  int64_t waited_ns = 0;
  int64_t hidden_ns = 0;
};

// A LookupStep as a tensor.
struct LookupStepVariant {
  std::shared_ptr<LookupStep> step;

  static absl::Status Read(tf::OpKernelContext* ctx, std::shared_ptr<LookupStep>* step);
  tf::Tensor ToTensor() const;
  // Required of a variant by TensorFlow; it never leaves the process.
  std::string TypeName() const { return "keras_sparse::LookupStep"; }
  void Encode(tf::VariantTensorData* data) const { data->set_type_name(TypeName()); }
  bool Decode(const tf::VariantTensorData& /*data*/) { return false; }
};

// The stage's own resource: the last handle to it stops the stage.
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

// Fingerprint of the inputs of a lookup over ranks.
Fingerprint FingerprintOf(const ExchangeLayout& layout, const std::vector<RequestInput>& inputs);

// Reads the current versions and numbers of updates of own tables.
void SeeTables(const LocalSlices& parts, std::vector<int64_t>* versions,
               std::vector<uint32_t>* num_updates);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_EXCHANGE_PREFETCH_PREFETCH_EXCHANGE_H_
