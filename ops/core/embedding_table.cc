#include "ops/core/embedding_table.h"

#include <algorithm>
#include <array>
#include <shared_mutex>
#include <utility>

#include "ops/core/dense_tier.h"
#include "ops/core/hash_tier.h"
#include "ops/core/id_partition.h"
#include "ops/core/row_access.h"

namespace keras_sparse {
namespace {

constexpr int64_t kNanosecondsPerPart = 100000;
// Far above any use, and low enough that the bytes of some records fit 64 bits.
constexpr int64_t kMaxOutputDim = int64_t{1} << 24;

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
  std::unique_ptr<EmbeddingTable> result(new EmbeddingTable(options));
  KERAS_SPARSE_RETURN_IF_ERROR(Initializer::Create(options.initializer, options.initializer_a,
                                                   options.initializer_b, options.seed,
                                                   &result->initializer_));
  result->rule_ = UpdateRule::None(options.output_dim);
  const RowSchema& schema = result->rule_->schema();
  if (result->is_dynamic()) {
    result->first_tier_ = std::make_unique<HashTier>(schema);
  } else {
    KERAS_SPARSE_RETURN_IF_ERROR(DenseTier::Open(options.input_dim, schema, *result->initializer_,
                                                 executor, &result->first_tier_));
  }
  *table = std::move(result);
  return Status::Ok();
}

Status EmbeddingTable::AddLowerTier(std::unique_ptr<RowStore> store) {
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  if (!is_dynamic()) {
    // A row that is demoted but not erased would be in two tiers.
    return Status(StatusCode::kUnimplemented, "lower tiers are for dynamic tables; static table '" +
                                                  name() + "' keeps all its rows in memory");
  }
  if (store->record_bytes() != rule_->schema().record_bytes()) {
    return FailedPrecondition("a lower tier of table '" + name() + "' must have records of " +
                              std::to_string(rule_->schema().record_bytes()) +
                              " bytes. Received: " + std::to_string(store->record_bytes()));
  }
  lower_tiers_.push_back(std::move(store));
  return Status::Ok();
}

Status EmbeddingTable::SetRule(const RuleOptions& rule, Executor* executor, RuleLayout* layout) {
  RuleOptions options = rule;
  options.dim = dim();
  std::unique_ptr<UpdateRule> created;
  KERAS_SPARSE_RETURN_IF_ERROR(UpdateRule::Create(options, &created));
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  if (!lower_tiers_.empty()) {
    return FailedPrecondition("the rule of table '" + name() +
                              "' must be set before it has lower tiers");
  }
  // Rows read as they do now: a lazy rule's pending moves are made first.
  KERAS_SPARSE_RETURN_IF_ERROR(CatchUpAll(executor));
  KERAS_SPARSE_RETURN_IF_ERROR(first_tier_->Relayout(created->schema(), created->step(), executor));
  rule_ = std::move(created);
  ++rule_generation_;
  ++version_;
  if (layout != nullptr) {
    *layout = {rule_generation_, {}, rule_->schema().record_floats()};
    for (const Slot& slot : rule_->schema().slots()) layout->slot_names.push_back(slot.name);
  }
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

Status EmbeddingTable::Import(const int64_t* keys, int64_t n, const float* records, int64_t width,
                              Executor* executor) {
  if (n >= (int64_t{1} << 32)) {
    return InvalidArgument(
        "an op takes fewer than 2^32 keys a table. Received: " + std::to_string(n) + " keys");
  }
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  const RowSchema& schema = rule_->schema();
  if (width != schema.record_floats() && width != dim()) {
    return InvalidArgument("`records` of table '" + name() + "' must be " + std::to_string(dim()) +
                           " wide (rows) or " + std::to_string(schema.record_floats()) +
                           " (rows and slots of rule '" + rule_->name() +
                           "'). Received: " + std::to_string(width));
  }
  KERAS_SPARSE_RETURN_IF_ERROR(CheckKeys(keys, n));
  std::vector<FetchedRecords> fetched;
  KERAS_SPARSE_RETURN_IF_ERROR(FetchedRecords::Fetch({{this, keys, n}}, executor, &fetched));
  ++version_;
  const std::vector<IdPartition> partitions =
      PartitionIds({{keys, n, first_tier_->max_part_bits()}}, executor);
  const IdPartition& partition = partitions[0];
  std::mutex mutex;
  Status status;
  executor->ParallelFor(partition.num_parts(), kNanosecondsPerPart,
                        [&](int64_t begin, int64_t end) {
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
                              std::copy_n(records + position * width, width, record);
                            }
                          }
                        });
  KERAS_SPARSE_RETURN_IF_ERROR(status);
  return fetched[0].EraseBelow(this);
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
  ++version_;
  for (const auto& store : lower_tiers_) KERAS_SPARSE_RETURN_IF_ERROR(store->Clear());
  return first_tier_->Clear(*initializer_, rule_->step(), executor);
}

Status EmbeddingTable::Demote(const int64_t* keys, int64_t n) {
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  if (lower_tiers_.empty()) {
    return FailedPrecondition("table '" + name() + "' must have a lower tier to demote rows to");
  }
  const auto record_bytes = static_cast<size_t>(rule_->schema().record_bytes());
  std::vector<int64_t> held;
  std::vector<char> records;
  for (int64_t i = 0; i < n; ++i) {
    float* record = nullptr;
    first_tier_->Find(keys + i, 1, &record);
    if (record == nullptr) continue;
    held.push_back(keys[i]);
    const char* bytes = reinterpret_cast<const char*>(record);
    records.insert(records.end(), bytes, bytes + record_bytes);
  }
  ++version_;
  // Erased above only once it is safe below.
  KERAS_SPARSE_RETURN_IF_ERROR(
      lower_tiers_[0]->Put(held.data(), static_cast<int64_t>(held.size()), records.data()));
  for (const int64_t key : held) first_tier_->Erase(key);
  return Status::Ok();
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

TableStats EmbeddingTable::stats() const {
  std::shared_lock<TableMutex> lock(mutex_);
  int64_t bytes = first_tier_->bytes() + rule_->history_bytes();
  for (const auto& store : lower_tiers_) bytes += store->bytes();
  return {num_rows(), bytes, lookups_, hits_, created_rows_, out_of_range_ids_};
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
