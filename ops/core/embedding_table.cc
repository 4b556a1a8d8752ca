#include "ops/core/embedding_table.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <shared_mutex>
#include <utility>

#include "ops/core/id_partition.h"
#include "ops/core/row_access.h"
#include "ops/core/saved_rule.h"

namespace keras_sparse {
namespace {

constexpr int64_t kNanosecondsPerPart = 100000;

}  // namespace

Status EmbeddingTable::Open(const TableOptions& options, Executor* executor,
                            std::unique_ptr<EmbeddingTable>* table) {
  if (options.output_dim < 1 || options.output_dim > kMaxOutputDim) {
    return InvalidArgument("`output_dim` must be in [1, " + std::to_string(kMaxOutputDim) +
                           "]. Received: output_dim=" + std::to_string(options.output_dim));
  }
  if (options.input_dim == 0 || options.input_dim < -1) {
    return InvalidArgument(
        "`input_dim` must be at least 1, or -1 for a dynamic table. Received: input_dim=" +
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
  KERAS_SPARSE_RETURN_IF_ERROR(Initializer::Create(options.initializer, options.initializer_a,
                                                   options.initializer_b, options.seed,
                                                   &result->initializer_));
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
  // Rows read as they do now: a lazy rule's pending moves are made first.
  KERAS_SPARSE_RETURN_IF_ERROR(CatchUpAll(executor));
  std::vector<std::unique_ptr<RowStore>> stores;
  std::vector<CountedStore*> counted;
  KERAS_SPARSE_RETURN_IF_ERROR(OpenStores(created->schema().record_bytes(), &stores, &counted));
  KERAS_SPARSE_RETURN_IF_ERROR(RelayoutStores(*created, stores));
  KERAS_SPARSE_RETURN_IF_ERROR(first_tier_->Relayout(created->schema(), created->step(), executor));
  lower_tiers_ = std::move(stores);
  counted_ = std::move(counted);
  for (CountedStore* store : counted_) store->CountAnew();
  staged_.Clear();
  change_log_.SetEverything();
  rule_ = std::move(created);
  ++rule_generation_;
  if (layout != nullptr) {
    *layout = {rule_generation_, {}, rule_->schema().record_floats()};
    for (const Slot& slot : rule_->schema().slots()) layout->slot_names.push_back(slot.name);
  }
  FinishChange(executor);
  return Status::Ok();
}

Status EmbeddingTable::CheckKeys(const int64_t* keys, int64_t n) const {
  for (int64_t i = 0; i < n; ++i) {
    if (first_tier_->Accepts(keys[i])) continue;
    return InvalidArgument("key must be in [0, " + std::to_string(input_dim()) + ") for table '" +
                           name() + "'. Received: keys[" + std::to_string(i) +
                           "] = " + std::to_string(keys[i]));
  }
  return Status::Ok();
}

Status EmbeddingTable::CheckRecords(const float* records, int64_t n, int64_t width) const {
  const RowSchema& schema = rule_->schema();
  const int64_t words = schema.record_bytes() / 4;
  if (width == dim() || width == schema.record_floats()) return Status::Ok();
  if (width != words) {
    const bool has_steps = words > schema.record_floats();
    return InvalidArgument(
        "`records` of table '" + name() + "' must be " + std::to_string(dim()) +
        " wide (rows) or " + std::to_string(schema.record_floats()) + " (rows and slots of rule '" +
        rule_->name() + "')" +
        (has_steps ? " or " + std::to_string(words) + " (their steps too)" : "") +
        ". Received: " + std::to_string(width));
  }
  for (int64_t i = 0; i < n; ++i) {
    const float* record = records + i * width;
    if (!rule_->RemembersLastStep(record)) return rule_->ForgottenStep(record, i);
  }
  return Status::Ok();
}

Status EmbeddingTable::Import(const int64_t* keys, int64_t n, const float* records, int64_t width,
                              Executor* executor, const uint32_t* ages) {
  if (n >= (int64_t{1} << 32)) {
    return InvalidArgument(
        "an op takes fewer than 2^32 keys a table. Received: " + std::to_string(n) + " keys");
  }
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  const RowSchema& schema = rule_->schema();
  KERAS_SPARSE_RETURN_IF_ERROR(CheckRecords(records, n, width));
  KERAS_SPARSE_RETURN_IF_ERROR(CheckKeys(keys, n));
  KERAS_SPARSE_RETURN_IF_ERROR(BeginChange(executor));
  // Whole records need nothing of those they replace, which might not even be readable.
  const bool replaces = width != dim() || width == schema.record_floats();
  const bool has_steps = width > schema.record_floats();
  std::vector<FetchedRecords> fetched(1);
  if (!replaces) {
    KERAS_SPARSE_RETURN_IF_ERROR(FetchedRecords::Fetch({{this, keys, n}}, executor, &fetched));
  }
  ++version_;
  first_tier_->BeginUpdate();
  const std::vector<IdPartition> partitions = PartitionIds({{keys, n, max_part_bits()}}, executor);
  const IdPartition& partition = partitions[0];
  std::mutex mutex;
  Status status;
  executor->ParallelFor(
      partition.num_parts(), kNanosecondsPerPart, [&](int64_t begin, int64_t end) {
        RowWriter writer(this, fetched[0]);
        for (int64_t part = begin; part < end; ++part) {
          const int64_t* ids = partition.ids(part);
          const uint32_t* positions = partition.positions(part);
          for (int64_t i = 0; i < partition.num_ids(part); ++i) {
            float* record = nullptr;
            bool created = false;
            const Status located = writer.Locate(ids + i, 1, &record, &created);
            if (!located.ok()) {
              std::lock_guard<std::mutex> lock(mutex);
              status = located;
              return;
            }
            writer.Prepare(ids + i, 1, &record, &created);
            const int64_t position = positions == nullptr ? i : positions[i];
            // By memcpy: steps are no floats.
            std::memcpy(record, records + position * width, static_cast<size_t>(4 * width));
            if (has_steps) continue;
            const uint32_t age = ages == nullptr ? 0 : ages[position];
            schema.SetGradientStep(record, num_steps_ - age);
          }
        }
      });
  KERAS_SPARSE_RETURN_IF_ERROR(status);
  KERAS_SPARSE_RETURN_IF_ERROR(replaces ? EraseBelow(keys, n) : fetched[0].EraseBelow(this));
  FinishChange(executor);
  return Status::Ok();
}

Status EmbeddingTable::SetInitializer(const std::string& initializer, float a, float b,
                                      int64_t seed) {
  std::unique_ptr<Initializer> created;
  KERAS_SPARSE_RETURN_IF_ERROR(Initializer::Create(initializer, a, b, seed, &created));
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  ++version_;
  initializer_ = std::move(created);
  return Status::Ok();
}

Status EmbeddingTable::Clear(Executor* executor) {
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  return ClearRows(executor);
}

Status EmbeddingTable::Restore(const RuleHistory& history, Executor* executor) {
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  if (rule_generation_ > 0) {
    KERAS_SPARSE_RETURN_IF_ERROR(SavedRule::Replay(rule_->options(), history, &rule_));
  }
  num_steps_ = history.table_step;
  is_restoring_ = true;
  return ClearRows(executor);
}

Status EmbeddingTable::ClearRows(Executor* executor) {
  ++version_;
  staged_.Clear();
  change_log_.SetEverything();
  if (filter_ != nullptr) filter_->Clear();
  for (const auto& store : lower_tiers_) KERAS_SPARSE_RETURN_IF_ERROR(store->Clear());
  return first_tier_->Clear(*initializer_, rule_->step(), executor);
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
  return rule_->schema().record_floats();
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
      first_tier_->bytes() + rule_->history_bytes() + staged_.bytes() + change_log_.bytes();
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
          evicted_rows_};
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
    // What left the tier above for this one has not come up.
    if (tiers.size() > 1) tiers.back().promotions -= counts.added_rows;
    tiers.push_back(tier);
  }
  for (size_t i = 1; i < tiers.size(); ++i) tiers[0].promotions += tiers[i].promotions;
  if (tiers.size() > 1) tiers[0].demotions = tiers[1].demotions;
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
