#include "ops/core/table/embedding_table.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <shared_mutex>
#include <utility>

#include "ops/core/base/bytes.h"

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
  KERAS_SPARSE_RETURN_IF_ERROR(result->state_.Open(executor));
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
  ++state_.version;  // records may move even where the rule is refused
  KERAS_SPARSE_RETURN_IF_ERROR(state_.tiers.CheckStaticSize(created->layout()));
  // Rows read as they do now: pending moves of a rule that defers them are made first.
  KERAS_SPARSE_RETURN_IF_ERROR(state_.rule_state.CatchUpAll(&state_.tiers, executor));
  KERAS_SPARSE_RETURN_IF_ERROR(
      state_.tiers.Relayout(state_.layout(), created->layout(), created->step(), executor));
  state_.rule_state.Set(std::move(created));
  if (layout != nullptr) {
    *layout = {state_.rule_state.generation(), {}, state_.layout().record_floats()};
    for (const Slot& slot : state_.layout().slots()) layout->slot_names.push_back(slot.name);
  }
  state_.FinishChange(executor);
  return Status::Ok();
}

Status EmbeddingTable::SetInitializer(const InitializerOptions& options) {
  std::unique_ptr<Initializer> created;
  KERAS_SPARSE_RETURN_IF_ERROR(Initializer::Create(options, &created));
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  ++state_.version;
  state_.gate.SetInitializer(std::move(created));
  return Status::Ok();
}

uint64_t EmbeddingTable::NextNumber() {
  static std::atomic<uint64_t> next{0};
  return next++;
}

int64_t EmbeddingTable::size() const {
  std::shared_lock<TableMutex> lock(mutex_);
  return state_.tiers.num_rows();
}

int64_t EmbeddingTable::record_floats() const {
  std::shared_lock<TableMutex> lock(mutex_);
  return state_.layout().record_floats();
}

int64_t EmbeddingTable::rule_generation() const {
  std::shared_lock<TableMutex> lock(mutex_);
  return state_.rule_state.generation();
}

RuleHistory EmbeddingTable::history() const {
  std::shared_lock<TableMutex> lock(mutex_);
  return state_.rule_state.history();
}

TableStats EmbeddingTable::stats() const {
  std::shared_lock<TableMutex> lock(mutex_);
  state_.tiers.WaitForWrites();
  return {state_.tiers.num_rows(),      state_.tiers.bytes() + state_.rule().history_bytes(),
          state_.counters.lookups,      state_.counters.hits,
          state_.counters.created_rows, state_.counters.out_of_range_ids,
          state_.counters.filtered_ids, state_.gate.num_waiting(),
          state_.gate.filter_bytes(),   *state_.tiers.waited_ns(),
          state_.counters.evicted_rows, state_.tiers.peak_first_tier_bytes()};
}

std::vector<TierStats> EmbeddingTable::tier_stats() const {
  std::shared_lock<TableMutex> lock(mutex_);
  state_.tiers.WaitForWrites();
  std::vector<TierStats> tiers(1);
  tiers[0].tier = "dram";
  tiers[0].rows = state_.tiers.first_tier().num_rows();
  tiers[0].bytes = state_.tiers.first_tier().bytes();
  tiers[0].hits = state_.counters.hits - state_.counters.lower_hits;
  tiers[0].misses = state_.counters.lookups - state_.counters.out_of_range_ids - tiers[0].hits;
  for (const CountedStore* store : state_.tiers.counted_stores()) {
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

int64_t EmbeddingTable::first_tier_bytes() const {
  std::shared_lock<TableMutex> lock(mutex_);
  return state_.tiers.first_tier().bytes();
}

int64_t EmbeddingTable::CountInFirstTier(const int64_t* keys, int64_t n) const {
  std::shared_lock<TableMutex> lock(mutex_);
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) count += state_.tiers.IsInFirstTier(keys[i]) ? 1 : 0;
  return count;
}

Status EmbeddingTable::AddLowerTier(std::unique_ptr<RowStore> store) {
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  return state_.tiers.AddLowerTier(std::move(store), state_.layout().record_bytes());
}

Status EmbeddingTable::Demote(const int64_t* keys, int64_t n) {
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  if (state_.tiers.lower_tiers().empty()) {
    return FailedPrecondition("table '" + name() + "' must have a lower tier to demote rows to");
  }
  const auto record_bytes = static_cast<size_t>(state_.layout().record_bytes());
  std::vector<int64_t> held;
  std::unique_ptr<char[]> records;
  KERAS_SPARSE_RETURN_IF_ERROR(AllocateBytes(n * static_cast<int64_t>(record_bytes), &records));
  for (int64_t i = 0; i < n; ++i) {
    float* record = nullptr;
    state_.tiers.first_tier().Find(keys + i, 1, &record);
    if (record == nullptr) continue;
    std::memcpy(records.get() + held.size() * record_bytes, record, record_bytes);
    held.push_back(keys[i]);
  }
  ++state_.version;
  // Erased above only once it is safe below.
  KERAS_SPARSE_RETURN_IF_ERROR(state_.tiers.PutBelow(held, std::move(records)));
  for (const int64_t key : held) state_.tiers.first_tier().Erase(key);
  return Status::Ok();
}

Status EmbeddingTable::SetFilter(const FilterOptions& options) {
  if (!is_dynamic()) {
    return Status(StatusCode::kUnimplemented,
                  "an admission filter must be that of a dynamic table: all ids of a static one "
                  "have rows. Give table '" +
                      name() +
                      "' input_dim=None. Received: input_dim=" + std::to_string(input_dim()));
  }
  std::unique_ptr<AdmissionFilter> filter;
  KERAS_SPARSE_RETURN_IF_ERROR(AdmissionFilter::Create(options, &filter));
  std::unique_ptr<Initializer> default_rows;
  if (!options.reads_initial_rows) {
    KERAS_SPARSE_RETURN_IF_ERROR(
        Initializer::Create({"constant", options.default_value}, &default_rows));
  }
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  ++state_.version;
  state_.gate.SetFilter(std::move(filter), std::move(default_rows));
  return Status::Ok();
}

Status EmbeddingTable::ImportFilter(const int64_t* keys, const uint32_t* counts, int64_t n) {
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  if (state_.gate.filter() == nullptr) {
    return FailedPrecondition("table '" + name() +
                              "' must have an admission filter to take what one remembers");
  }
  ++state_.version;
  return state_.gate.filter()->Restore(keys, counts, n);
}

Status EmbeddingTable::SetRowLimit(int64_t max_rows, std::unique_ptr<EvictionPolicy> policy) {
  if (!is_dynamic()) {
    return Status(StatusCode::kUnimplemented,
                  "`max_rows` must be that of a dynamic table: a static one has all its rows. Give "
                  "table '" +
                      name() +
                      "' input_dim=None. Received: input_dim=" + std::to_string(input_dim()));
  }
  if (max_rows < 1) {
    return InvalidArgument("`max_rows` of table '" + name() +
                           "' must be at least 1. Received: max_rows=" + std::to_string(max_rows));
  }
  if (policy != nullptr) KERAS_SPARSE_RETURN_IF_ERROR(CheckEviction(*policy));
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  state_.limit.max_rows = max_rows;
  state_.limit.policy = std::move(policy);
  return Status::Ok();
}

Status EmbeddingTable::RowLimitError(int64_t num_new, int64_t num_leaving) const {
  const std::string leaving =
      state_.limit.policy == nullptr
          ? ""
          : ", of which its eviction policy lets " + std::to_string(num_leaving) + " go,";
  return ResourceExhausted(
      "`max_rows` of table '" + name() +
      "' must hold the rows of all its keys; give it more (`max_vocabulary_size_per_gpu` in SOK's "
      "layers), an `eviction` policy that lets enough go, or an `admission` filter. The update "
      "made and changed no row. Received: max_rows=" +
      std::to_string(state_.limit.max_rows) + " where the table has " +
      std::to_string(state_.tiers.num_rows()) + " rows" + leaving + " and " +
      std::to_string(num_new) + " keys are new");
}

Status EmbeddingTable::FindRoom(const int64_t* keys, int64_t n, Executor* executor,
                                EvictionCandidates* leaving) const {
  if (state_.limit.max_rows == INT64_MAX || n <= state_.limit.max_rows - state_.tiers.num_rows())
    return Status::Ok();
  std::vector<int64_t> without = state_.tiers.KeysWithoutRow(keys, n, executor);
  const auto waits = [this](int64_t key) { return !state_.gate.WouldAdmit(key); };
  without.erase(std::remove_if(without.begin(), without.end(), waits), without.end());
  const auto num_new = static_cast<int64_t>(without.size());
  const auto has_room = [&] {
    const int64_t num_left = state_.tiers.num_rows() - static_cast<int64_t>(leaving->keys.size());
    return num_new == 0 || num_new <= state_.limit.max_rows - num_left;
  };
  if (has_room()) return Status::Ok();
  if (state_.limit.policy != nullptr) {
    // What the step has read and is about to update stays.
    std::vector<int64_t> kept(keys, keys + n);
    std::sort(kept.begin(), kept.end());
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
    if (static_cast<int64_t>(kept.size()) <= state_.limit.max_rows) {
      KERAS_SPARSE_RETURN_IF_ERROR(FindLeaving(*state_.limit.policy, kept, executor, leaving));
    }
  }
  if (has_room()) return Status::Ok();
  return RowLimitError(num_new, static_cast<int64_t>(leaving->keys.size()));
}

Status EmbeddingTable::CheckRoom(const int64_t* ids, int64_t n, Executor* executor) {
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  EvictionCandidates leaving;
  return FindRoom(ids, n, executor, &leaving);
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
