// EmbeddingTable: its tiers, and rows on their way down.
#include <algorithm>
#include <cstring>
#include <shared_mutex>
#include <utility>

#include "ops/core/base/background_pool.h"
#include "ops/core/base/bytes.h"
#include "ops/core/base/wait_timer.h"
#include "ops/core/first_tier/array_tier.h"
#include "ops/core/first_tier/hash_tier.h"
#include "ops/core/stores/buffered_store.h"
#include "ops/core/stores/cascade_store.h"
#include "ops/core/table/embedding_table.h"

namespace keras_sparse {
namespace {

constexpr int64_t kChunkRows = 65536;
// Some steps' demotions: a step waits only where the store is slower than training all the time.
constexpr int64_t kMaxQueuedBytes = int64_t{64} << 20;

}  // namespace

Status EmbeddingTable::OpenTiers(Executor* executor) {
  const RecordLayout& layout = rule_->layout();
  const StorageOptions& storage = options_.storage;
  const TierLimit limit = {first_tier_size(), storage.cache_strategy};
  if (storage.lower_tiers.empty()) {
    if (is_dynamic()) return HashTier::Open(layout, TierLimit(), &first_tier_);
    KERAS_SPARSE_RETURN_IF_ERROR(CheckStaticSize(layout));
    return ArrayTier::Open(input_dim(), layout, *initializer_, executor, &first_tier_);
  }
  if (!is_dynamic()) {
    return Status(
        StatusCode::kUnimplemented,
        "`storage` with lower tiers must be that of a dynamic table: a static table keeps "
        "all its rows in memory. Give table '" +
            name() + "' input_dim=None. Received: input_dim=" + std::to_string(input_dim()));
  }
  if (storage.sizes.size() != storage.lower_tiers.size() + 1 ||
      *std::min_element(storage.sizes.begin(), storage.sizes.end()) < 1) {
    return InvalidArgument("`storage_size` must have a size above 0 for each of the " +
                           std::to_string(storage.lower_tiers.size() + 1) + " tiers of table '" +
                           name() + "'");
  }
  KERAS_SPARSE_RETURN_IF_ERROR(HashTier::Open(layout, limit, &first_tier_));
  KERAS_SPARSE_RETURN_IF_ERROR(StorageFolder::Make(FileSystem::Posix(), storage.path, &folder_));
  return OpenStores(layout.record_bytes(), &lower_tiers_, &counted_);
}

int64_t EmbeddingTable::first_tier_size() const {
  return options_.storage.sizes.empty() ? INT64_MAX : options_.storage.sizes[0];
}

Status EmbeddingTable::CheckStaticSize(const RecordLayout& layout) const {
  if (input_dim() <= first_tier_size() / layout.record_bytes()) return Status::Ok();
  return ResourceExhausted(
      "`storage_size` must hold all rows of static table '" + name() +
      "' with their slots; give it more. Received: " + std::to_string(first_tier_size()) +
      " bytes for " + std::to_string(input_dim()) + " rows of " +
      std::to_string(layout.record_bytes()) + " bytes");
}

Status EmbeddingTable::OpenStores(int64_t record_bytes, RowStores* stores,
                                  std::vector<CountedStore*>* counted) {
  const std::vector<std::string>& kinds = options_.storage.lower_tiers;
  if (kinds.empty()) return Status::Ok();
  BackgroundPool* pool = nullptr;
  KERAS_SPARSE_RETURN_IF_ERROR(BackgroundPool::ForEviction(&pool));
  std::vector<std::unique_ptr<RowStore>> opened(kinds.size());
  for (size_t i = 0; i < kinds.size(); ++i) {
    const std::string& kind = kinds[i];
    StoreOptions options;
    options.kind = kind;
    options.folder = folder_->path() + "/" + kind + "-" + std::to_string(num_stores_opened_++);
    options.record_bytes = record_bytes;
    options.capacity = options_.storage.sizes[i + 1];
    options.keeps_order = i + 1 < kinds.size();
    KERAS_SPARSE_RETURN_IF_ERROR(RowStore::Open(options, &opened[i]));
    counted->push_back(new CountedStore(std::move(opened[i])));
    opened[i].reset(counted->back());
  }
  // From the last one up, each and what is below it become one store.
  while (opened.size() > 1) {
    std::unique_ptr<RowStore> lower = std::move(opened.back());
    opened.pop_back();
    KERAS_SPARSE_RETURN_IF_ERROR(
        CascadeStore::Open(std::move(opened.back()), std::move(lower), &opened.back()));
  }
  if (pool != nullptr) {
    opened[0] = std::make_unique<BufferedStore>(std::move(opened[0]), pool, kMaxQueuedBytes);
  }
  stores->emplace_back(std::move(opened[0]));
  return Status::Ok();
}

Status EmbeddingTable::RelayoutStores(const UpdateRule& rule, const RowStores& stores) const {
  const RecordLayout& layout = rule.layout();
  for (size_t i = 0; i < stores.size(); ++i) {
    const RowStore& from = *lower_tiers_[i];
    for (int64_t cursor = 0; cursor >= 0;) {
      std::vector<int64_t> keys;
      std::vector<char> records;
      KERAS_SPARSE_RETURN_IF_ERROR(from.Walk(cursor, kChunkRows, &keys, &records, &cursor));
      std::vector<char> laid_out(keys.size() * static_cast<size_t>(layout.record_bytes()));
      for (size_t k = 0; k < keys.size(); ++k) {
        const char* record = records.data() + static_cast<int64_t>(k) * from.record_bytes();
        auto* to = reinterpret_cast<float*>(laid_out.data() +
                                            static_cast<int64_t>(k) * layout.record_bytes());
        layout.LayOut(rule_->layout(), reinterpret_cast<const float*>(record), rule.step(), to);
      }
      KERAS_SPARSE_RETURN_IF_ERROR(
          stores[i]->Put(keys.data(), static_cast<int64_t>(keys.size()), laid_out.data()));
    }
    // The old ones go only once the new ones have all.
    KERAS_SPARSE_RETURN_IF_ERROR(stores[i]->Flush());
  }
  return Status::Ok();
}

int64_t EmbeddingTable::first_tier_bytes() const {
  std::shared_lock<TableMutex> lock(mutex_);
  return first_tier_->bytes();
}

int64_t EmbeddingTable::CountInFirstTier(const int64_t* keys, int64_t n) const {
  std::shared_lock<TableMutex> lock(mutex_);
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) count += IsInFirstTier(keys[i]) ? 1 : 0;
  return count;
}

bool EmbeddingTable::IsInFirstTier(int64_t key) const {
  float* record = nullptr;
  first_tier_->Find(&key, 1, &record);
  return record != nullptr;
}

Status EmbeddingTable::DemoteExcess(Executor* executor) {
  return first_tier_->DemoteExcess(
      executor, [this](const std::vector<int64_t>& keys, std::unique_ptr<char[]> records) {
        return PutBelow(keys, std::move(records));
      });
}

Status EmbeddingTable::PutBelow(const std::vector<int64_t>& keys, std::unique_ptr<char[]> records) {
  const auto n = static_cast<int64_t>(keys.size());
  staged_->Drop(keys.data(), n);
  LogDemoted(keys);
  const WaitTimer timer(&waited_ns_);
  const Status put = lower_tiers_[0]->PutOwned(keys.data(), n, std::move(records));
  // The rows stay above. What has come down all the same would be out of date with their next
  // update, and a file that is linked then has nothing above it.
  if (put.ok()) return put;
  (void)lower_tiers_[0]->Erase(keys.data(), n);
  return Status(put.code(), "table '" + name() + "': " + put.message());
}

void EmbeddingTable::LogDemoted(const std::vector<int64_t>& keys) {
  if (change_log_.is_everything()) return;
  for (const int64_t key : keys) {
    if (first_tier_->IsChanged(key)) change_log_.AddDemoted(key);
  }
}

bool EmbeddingTable::HasRowsBelow() const {
  return std::any_of(lower_tiers_.begin(), lower_tiers_.end(),
                     [](const auto& store) { return store->num_rows() > 0; });
}

std::vector<bool> EmbeddingTable::AreAbove(size_t tier, const std::vector<int64_t>& keys) const {
  const auto n = static_cast<int64_t>(keys.size());
  std::vector<float*> records(keys.size());
  first_tier_->Find(keys.data(), n, records.data());
  std::vector<bool> above(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) above[i] = records[i] != nullptr;
  const auto found = std::make_unique<bool[]>(keys.size());
  for (size_t t = 0; t < tier; ++t) {
    lower_tiers_[t]->Contains(keys.data(), n, found.get());
    for (size_t i = 0; i < keys.size(); ++i) above[i] = above[i] || found[i];
  }
  return above;
}

Status EmbeddingTable::EraseBelow(const int64_t* keys, int64_t n) {
  staged_->Drop(keys, n);
  const WaitTimer timer(&waited_ns_);
  for (const auto& store : lower_tiers_) KERAS_SPARSE_RETURN_IF_ERROR(store->Erase(keys, n));
  return Status::Ok();
}

Status EmbeddingTable::CheckMemory() const {
  if (first_tier_size() == INT64_MAX || !lower_tiers_.empty() || !is_dynamic()) {
    return Status::Ok();
  }
  const int64_t bytes = first_tier_->bytes() - first_tier_->free_bytes();
  if (bytes <= first_tier_size()) return Status::Ok();
  return ResourceExhausted("`storage_size` must hold all rows of table '" + name() +
                           "', which has no lower tier; give it more, or a lower tier by "
                           "`storage_type`, or evict rows. Received: " +
                           std::to_string(first_tier_size()) + " bytes where " +
                           std::to_string(first_tier_->num_rows()) + " rows take " +
                           std::to_string(bytes));
}

Status EmbeddingTable::BeginChange(Executor* executor) {
  if (!is_unfinished_) return Status::Ok();
  ++version_;  // rows may move even where the change is refused
  KERAS_SPARSE_RETURN_IF_ERROR(BoundHistory(executor));
  KERAS_SPARSE_RETURN_IF_ERROR(DemoteExcess(executor));
  KERAS_SPARSE_RETURN_IF_ERROR(CheckMemory());
  is_unfinished_ = false;
  return Status::Ok();
}

void EmbeddingTable::FinishChange(Executor* executor) {
  // Before rows leave it.
  peak_first_tier_bytes_ = std::max(peak_first_tier_bytes_, first_tier_->bytes());
  const Status bounded = BoundHistory(executor);
  const Status demoted = DemoteExcess(executor);
  is_unfinished_ = !bounded.ok() || !demoted.ok() || !CheckMemory().ok();
}

Status EmbeddingTable::AddLowerTier(std::unique_ptr<RowStore> store) {
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  if (folder_ != nullptr) {
    return FailedPrecondition("the lower tiers of table '" + name() +
                              "' must be those of its options");
  }
  if (!is_dynamic()) {
    // A row that is demoted but not erased would be in two tiers.
    return Status(StatusCode::kUnimplemented, "lower tiers are for dynamic tables; static table '" +
                                                  name() + "' keeps all its rows in memory");
  }
  if (store->record_bytes() != rule_->layout().record_bytes()) {
    return FailedPrecondition("a lower tier of table '" + name() + "' must have records of " +
                              std::to_string(rule_->layout().record_bytes()) +
                              " bytes. Received: " + std::to_string(store->record_bytes()));
  }
  counted_.push_back(new CountedStore(std::move(store)));
  lower_tiers_.emplace_back(counted_.back());
  return Status::Ok();
}

Status EmbeddingTable::Demote(const int64_t* keys, int64_t n) {
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  if (lower_tiers_.empty()) {
    return FailedPrecondition("table '" + name() + "' must have a lower tier to demote rows to");
  }
  const auto record_bytes = static_cast<size_t>(rule_->layout().record_bytes());
  std::vector<int64_t> held;
  std::unique_ptr<char[]> records;
  KERAS_SPARSE_RETURN_IF_ERROR(AllocateBytes(n * static_cast<int64_t>(record_bytes), &records));
  for (int64_t i = 0; i < n; ++i) {
    float* record = nullptr;
    first_tier_->Find(keys + i, 1, &record);
    if (record == nullptr) continue;
    std::memcpy(records.get() + held.size() * record_bytes, record, record_bytes);
    held.push_back(keys[i]);
  }
  ++version_;
  // Erased above only once it is safe below.
  KERAS_SPARSE_RETURN_IF_ERROR(PutBelow(held, std::move(records)));
  for (const int64_t key : held) first_tier_->Erase(key);
  return Status::Ok();
}

}  // namespace keras_sparse
