#include "ops/core/table/embedding_table.h"

#include <algorithm>
#include <atomic>
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
  KERAS_SPARSE_RETURN_IF_ERROR(
      Initializer::Create(options.initializer, &result->state_.initializer));
  result->state_.rule = UpdateRule::None(options.output_dim, options.keeps_gradient_step);
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
  if (!state_.lower_tiers.empty() && state_.folder == nullptr) {
    return FailedPrecondition("the rule of table '" + name() +
                              "' must be set before a lower tier is added to it");
  }
  ++state_.version;  // records may move even where the rule is refused
  if (!is_dynamic()) KERAS_SPARSE_RETURN_IF_ERROR(CheckStaticSize(created->layout()));
  // Rows read as they do now: pending moves of a rule that defers them are made first.
  KERAS_SPARSE_RETURN_IF_ERROR(CatchUpAll(executor));
  RowStores stores;
  std::vector<CountedStore*> counted;
  KERAS_SPARSE_RETURN_IF_ERROR(OpenStores(created->layout().record_bytes(), &stores, &counted));
  KERAS_SPARSE_RETURN_IF_ERROR(RelayoutStores(*created, stores));
  KERAS_SPARSE_RETURN_IF_ERROR(
      state_.first_tier->Relayout(created->layout(), created->step(), executor));
  state_.lower_tiers = std::move(stores);
  state_.counted = std::move(counted);
  for (CountedStore* store : state_.counted) store->CountAnew();
  state_.staged->Clear();
  state_.change_log.SetEverything();
  state_.rule = std::move(created);
  ++state_.rule_generation;
  if (layout != nullptr) {
    *layout = {state_.rule_generation, {}, state_.rule->layout().record_floats()};
    for (const Slot& slot : state_.rule->layout().slots()) layout->slot_names.push_back(slot.name);
  }
  FinishChange(executor);
  return Status::Ok();
}

Status EmbeddingTable::SetInitializer(const InitializerOptions& options) {
  std::unique_ptr<Initializer> created;
  KERAS_SPARSE_RETURN_IF_ERROR(Initializer::Create(options, &created));
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  ++state_.version;
  state_.initializer = std::move(created);
  return Status::Ok();
}

uint64_t EmbeddingTable::NextNumber() {
  static std::atomic<uint64_t> next{0};
  return next++;
}

int64_t EmbeddingTable::num_rows() const {
  int64_t rows = state_.first_tier->num_rows();
  for (const auto& store : state_.lower_tiers) rows += store->num_rows();
  return rows;
}

int64_t EmbeddingTable::size() const {
  std::shared_lock<TableMutex> lock(mutex_);
  return num_rows();
}

int64_t EmbeddingTable::record_floats() const {
  std::shared_lock<TableMutex> lock(mutex_);
  return state_.rule->layout().record_floats();
}

int64_t EmbeddingTable::rule_generation() const {
  std::shared_lock<TableMutex> lock(mutex_);
  return state_.rule_generation;
}

RuleHistory EmbeddingTable::history() const {
  std::shared_lock<TableMutex> lock(mutex_);
  RuleHistory history = state_.rule->history();
  history.table_step = state_.num_steps;
  return history;
}

void EmbeddingTable::WaitForWrites() const {
  // What cannot be written fails the next change. Here it counts where it is.
  for (const auto& store : state_.lower_tiers) (void)store->Flush();
}

TableStats EmbeddingTable::stats() const {
  std::shared_lock<TableMutex> lock(mutex_);
  WaitForWrites();
  int64_t bytes = state_.first_tier->bytes() + state_.rule->history_bytes() +
                  state_.staged->bytes() + state_.change_log.bytes();
  for (const auto& store : state_.lower_tiers) bytes += store->bytes() + store->memory_bytes();
  return {num_rows(),
          bytes,
          state_.lookups,
          state_.hits,
          state_.created_rows,
          state_.out_of_range_ids,
          state_.filtered_ids,
          state_.filter == nullptr ? 0 : state_.filter->num_waiting(),
          state_.filter == nullptr ? 0 : state_.filter->bytes(),
          state_.waited_ns,
          state_.evicted_rows,
          std::max(state_.peak_first_tier_bytes, state_.first_tier->bytes())};
}

std::vector<TierStats> EmbeddingTable::tier_stats() const {
  std::shared_lock<TableMutex> lock(mutex_);
  WaitForWrites();
  std::vector<TierStats> tiers(1);
  tiers[0].tier = "dram";
  tiers[0].rows = state_.first_tier->num_rows();
  tiers[0].bytes = state_.first_tier->bytes();
  tiers[0].hits = state_.hits - state_.lower_hits;
  tiers[0].misses = state_.lookups - state_.out_of_range_ids - tiers[0].hits;
  for (const CountedStore* store : state_.counted) {
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
