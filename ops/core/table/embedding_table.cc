#include "ops/core/table/embedding_table.h"

#include <algorithm>
#include <shared_mutex>
#include <utility>

namespace keras_sparse {

Status EmbeddingTable::Open(const TableOptions& options, Executor* executor,
                            std::unique_ptr<EmbeddingTable>* table) {
  if (options.output_dim < 1 || options.output_dim > kMaxOutputDim) {
    return InvalidArgument("`output_dim` must be in [1, " + std::to_string(kMaxOutputDim) +
                           "]. Received: output_dim=" + std::to_string(options.output_dim));
  }
  if (options.input_dim < -1) {
    return InvalidArgument(
        "`input_dim` must be at least 0, or -1 for a dynamic table. Received: input_dim=" +
        std::to_string(options.input_dim));
  }
  if (options.keeps_gradient_step && options.input_dim >= 0) {
    return Status(
        StatusCode::kUnimplemented,
        "a table that keeps the steps of gradients must be a dynamic one, as all ids of a "
        "static one keep their rows. Received: input_dim=" +
            std::to_string(options.input_dim));
  }
  std::unique_ptr<EmbeddingTable> result(new EmbeddingTable(options));
  KERAS_SPARSE_RETURN_IF_ERROR(Initializer::Create(options.initializer, &result->initializer_));
  result->rule_ = UpdateRule::None(options.output_dim, options.keeps_gradient_step);
  KERAS_SPARSE_RETURN_IF_ERROR(result->OpenTiers(executor));
  *table = std::move(result);
  return Status::Ok();
}

Status EmbeddingTable::SetRule(const RuleOptions& rule, Executor* executor, RuleLayout* layout) {
  RuleOptions options = rule;
  options.dim = dim();
  options.keeps_gradient_step = options_.keeps_gradient_step;
  std::unique_ptr<UpdateRule> created;
  KERAS_SPARSE_RETURN_IF_ERROR(UpdateRule::Create(options, &created));
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  if (!lower_tiers_.empty() && folder_ == nullptr) {
    return FailedPrecondition("the rule of table '" + name() +
                              "' must be set before a lower tier is added to it");
  }
  ++version_;  // records may move even where the rule is refused
  if (!is_dynamic()) KERAS_SPARSE_RETURN_IF_ERROR(CheckStaticSize(created->layout()));
  // Rows read as they do now: pending moves of a rule that defers them are made first.
  KERAS_SPARSE_RETURN_IF_ERROR(CatchUpAll(executor));
  RowStores stores;
  std::vector<CountedStore*> counted;
  KERAS_SPARSE_RETURN_IF_ERROR(OpenStores(created->layout().record_bytes(), &stores, &counted));
  KERAS_SPARSE_RETURN_IF_ERROR(RelayoutStores(*created, stores));
  KERAS_SPARSE_RETURN_IF_ERROR(first_tier_->Relayout(created->layout(), created->step(), executor));
  lower_tiers_ = std::move(stores);
  counted_ = std::move(counted);
  for (CountedStore* store : counted_) store->CountAnew();
  staged_->Clear();
  change_log_.SetEverything();
  rule_ = std::move(created);
  ++rule_generation_;
  if (layout != nullptr) {
    *layout = {rule_generation_, {}, rule_->layout().record_floats()};
    for (const Slot& slot : rule_->layout().slots()) layout->slot_names.push_back(slot.name);
  }
  FinishChange(executor);
  return Status::Ok();
}

Status EmbeddingTable::SetInitializer(const InitializerOptions& options) {
  std::unique_ptr<Initializer> created;
  KERAS_SPARSE_RETURN_IF_ERROR(Initializer::Create(options, &created));
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  ++version_;
  initializer_ = std::move(created);
  return Status::Ok();
}

uint64_t EmbeddingTable::NextNumber() {
  static std::atomic<uint64_t> next{0};
  return next++;
}

int64_t EmbeddingTable::num_rows() const {
  int64_t rows = first_tier_->num_rows();
  for (const auto& store : lower_tiers_) rows += store->num_rows();
  return rows;
}

int64_t EmbeddingTable::size() const {
  std::shared_lock<TableMutex> lock(mutex_);
  return num_rows();
}

int64_t EmbeddingTable::record_floats() const {
  std::shared_lock<TableMutex> lock(mutex_);
  return rule_->layout().record_floats();
}

int64_t EmbeddingTable::rule_generation() const {
  std::shared_lock<TableMutex> lock(mutex_);
  return rule_generation_;
}

RuleHistory EmbeddingTable::history() const {
  std::shared_lock<TableMutex> lock(mutex_);
  RuleHistory history = rule_->history();
  history.table_step = num_steps_;
  return history;
}

void EmbeddingTable::WaitForWrites() const {
  // What cannot be written fails the next change. Here it counts where it is.
  for (const auto& store : lower_tiers_) (void)store->Flush();
}

TableStats EmbeddingTable::stats() const {
  std::shared_lock<TableMutex> lock(mutex_);
  WaitForWrites();
  int64_t bytes =
      first_tier_->bytes() + rule_->history_bytes() + staged_->bytes() + change_log_.bytes();
  for (const auto& store : lower_tiers_) bytes += store->bytes() + store->memory_bytes();
  return {num_rows(),
          bytes,
          lookups_,
          hits_,
          created_rows_,
          out_of_range_ids_,
          filtered_ids_,
          filter_ == nullptr ? 0 : filter_->num_waiting(),
          filter_ == nullptr ? 0 : filter_->bytes(),
          waited_ns_,
          evicted_rows_,
          std::max(peak_first_tier_bytes_, first_tier_->bytes())};
}

std::vector<TierStats> EmbeddingTable::tier_stats() const {
  std::shared_lock<TableMutex> lock(mutex_);
  WaitForWrites();
  std::vector<TierStats> tiers(1);
  tiers[0].tier = "dram";
  tiers[0].rows = first_tier_->num_rows();
  tiers[0].bytes = first_tier_->bytes();
  tiers[0].hits = hits_ - lower_hits_;
  tiers[0].misses = lookups_ - out_of_range_ids_ - tiers[0].hits;
  for (const CountedStore* store : counted_) {
    const StoreCounts counts = store->counts();
    TierStats tier;
    tier.tier = store->tier();
    tier.rows = store->num_rows();
    tier.bytes = store->bytes();
    tier.memory_bytes = store->memory_bytes();
    tier.hits = counts.hits;
    tier.misses = counts.misses;
    tier.promotions = counts.erased_rows;
    tier.demotions = counts.added_rows;
    tier.read_bytes = counts.read_bytes;
    tier.write_bytes = counts.write_bytes;
    tier.compacted_bytes = counts.compacted_bytes;
    tier.busy_ns = counts.busy_ns;
    tiers[0].promotions += tier.promotions;
    // A row that moved on from one lower tier to another came down from the first tier once.
    tiers[0].demotions += counts.added_rows - counts.moved_rows;
    tiers.push_back(tier);
  }
  return tiers;
}

TableLocks::TableLocks(std::vector<EmbeddingTable*> tables, Mode mode)
    : tables_(std::move(tables)), mode_(mode) {
  std::sort(tables_.begin(), tables_.end());
  const auto end = std::unique(tables_.begin(), tables_.end());
  has_repeats_ = end != tables_.end();
  tables_.erase(end, tables_.end());
  for (EmbeddingTable* table : tables_) {
    if (mode_ == Mode::kShared) {
      table->mutex_.lock_shared();
    } else {
      table->mutex_.lock();
    }
  }
}

TableLocks::~TableLocks() {
  for (EmbeddingTable* table : tables_) {
    if (mode_ == Mode::kShared) {
      table->mutex_.unlock_shared();
    } else {
      table->mutex_.unlock();
    }
  }
}

}  // namespace keras_sparse
