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
  const RecordLayout& layout = state_.rule->layout();
  const StorageOptions& storage = options_.storage;
  const TierLimit limit = {first_tier_size(), storage.cache_strategy};
  if (storage.lower_tiers.empty()) {
    if (is_dynamic()) return HashTier::Open(layout, TierLimit(), &state_.first_tier);
    KERAS_SPARSE_RETURN_IF_ERROR(CheckStaticSize(layout));
    return ArrayTier::Open(input_dim(), layout, *state_.initializer, executor, &state_.first_tier);
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
  KERAS_SPARSE_RETURN_IF_ERROR(HashTier::Open(layout, limit, &state_.first_tier));
  KERAS_SPARSE_RETURN_IF_ERROR(
      StorageFolder::Make(FileSystem::Posix(), storage.path, &state_.folder));
  return OpenStores(layout.record_bytes(), &state_.lower_tiers, &state_.counted);
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
    options.folder =
        state_.folder->path() + "/" + kind + "-" + std::to_string(state_.num_stores_opened++);
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
    const RowStore& from = *state_.lower_tiers[i];
    for (int64_t cursor = 0; cursor >= 0;) {
      std::vector<int64_t> keys;
      std::vector<char> records;
      KERAS_SPARSE_RETURN_IF_ERROR(from.Walk(cursor, kChunkRows, &keys, &records, &cursor));
      std::vector<char> laid_out(keys.size() * static_cast<size_t>(layout.record_bytes()));
      for (size_t k = 0; k < keys.size(); ++k) {
        const char* record = records.data() + static_cast<int64_t>(k) * from.record_bytes();
        auto* to = reinterpret_cast<float*>(laid_out.data() +
                                            static_cast<int64_t>(k) * layout.record_bytes());
        layout.LayOut(state_.rule->layout(), reinterpret_cast<const float*>(record), rule.step(),
                      to);
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
  return state_.first_tier->bytes();
}

int64_t EmbeddingTable::CountInFirstTier(const int64_t* keys, int64_t n) const {
  std::shared_lock<TableMutex> lock(mutex_);
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) count += IsInFirstTier(keys[i]) ? 1 : 0;
  return count;
}

bool EmbeddingTable::IsInFirstTier(int64_t key) const {
  float* record = nullptr;
  state_.first_tier->Find(&key, 1, &record);
  return record != nullptr;
}

Status EmbeddingTable::DemoteExcess(Executor* executor) {
  return state_.first_tier->DemoteExcess(
      executor, [this](const std::vector<int64_t>& keys, std::unique_ptr<char[]> records) {
        return PutBelow(keys, std::move(records));
      });
}

Status EmbeddingTable::PutBelow(const std::vector<int64_t>& keys, std::unique_ptr<char[]> records) {
  const auto n = static_cast<int64_t>(keys.size());
  state_.staged->Drop(keys.data(), n);
  LogDemoted(keys);
  const WaitTimer timer(&state_.waited_ns);
  const Status put = state_.lower_tiers[0]->PutOwned(keys.data(), n, std::move(records));
  // The rows stay above. What has come down all the same would be out of date with their next
  // update, and a file that is linked then has nothing above it.
  if (put.ok()) return put;
  (void)state_.lower_tiers[0]->Erase(keys.data(), n);
  return Status(put.code(), "table '" + name() + "': " + put.message());
}

void EmbeddingTable::LogDemoted(const std::vector<int64_t>& keys) {
  if (state_.change_log.is_everything()) return;
  for (const int64_t key : keys) {
    if (state_.first_tier->IsChanged(key)) state_.change_log.AddDemoted(key);
  }
}

bool EmbeddingTable::HasRowsBelow() const {
  return std::any_of(state_.lower_tiers.begin(), state_.lower_tiers.end(),
                     [](const auto& store) { return store->num_rows() > 0; });
}

std::vector<bool> EmbeddingTable::AreAbove(size_t tier, const std::vector<int64_t>& keys) const {
  const auto n = static_cast<int64_t>(keys.size());
  std::vector<float*> records(keys.size());
  state_.first_tier->Find(keys.data(), n, records.data());
  std::vector<bool> above(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) above[i] = records[i] != nullptr;
  const auto found = std::make_unique<bool[]>(keys.size());
  for (size_t t = 0; t < tier; ++t) {
    state_.lower_tiers[t]->Contains(keys.data(), n, found.get());
    for (size_t i = 0; i < keys.size(); ++i) above[i] = above[i] || found[i];
  }
  return above;
}

Status EmbeddingTable::EraseBelow(const int64_t* keys, int64_t n) {
  state_.staged->Drop(keys, n);
  const WaitTimer timer(&state_.waited_ns);
  for (const auto& store : state_.lower_tiers) KERAS_SPARSE_RETURN_IF_ERROR(store->Erase(keys, n));
  return Status::Ok();
}

Status EmbeddingTable::CheckMemory() const {
  if (first_tier_size() == INT64_MAX || !state_.lower_tiers.empty() || !is_dynamic()) {
    return Status::Ok();
  }
  const int64_t bytes = state_.first_tier->bytes() - state_.first_tier->free_bytes();
  if (bytes <= first_tier_size()) return Status::Ok();
  return ResourceExhausted("`storage_size` must hold all rows of table '" + name() +
                           "', which has no lower tier; give it more, or a lower tier by "
                           "`storage_type`, or evict rows. Received: " +
                           std::to_string(first_tier_size()) + " bytes where " +
                           std::to_string(state_.first_tier->num_rows()) + " rows take " +
                           std::to_string(bytes));
}

Status EmbeddingTable::BeginChange(Executor* executor) {
  if (!state_.is_unfinished) return Status::Ok();
  ++state_.version;  // rows may move even where the change is refused
  KERAS_SPARSE_RETURN_IF_ERROR(BoundHistory(executor));
  KERAS_SPARSE_RETURN_IF_ERROR(DemoteExcess(executor));
  KERAS_SPARSE_RETURN_IF_ERROR(CheckMemory());
  state_.is_unfinished = false;
  return Status::Ok();
}

void EmbeddingTable::FinishChange(Executor* executor) {
  // Before rows leave it.
  state_.peak_first_tier_bytes = std::max(state_.peak_first_tier_bytes, state_.first_tier->bytes());
  const Status bounded = BoundHistory(executor);
  const Status demoted = DemoteExcess(executor);
  state_.is_unfinished = !bounded.ok() || !demoted.ok() || !CheckMemory().ok();
}

Status EmbeddingTable::AddLowerTier(std::unique_ptr<RowStore> store) {
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  if (state_.folder != nullptr) {
    return FailedPrecondition("the lower tiers of table '" + name() +
                              "' must be those of its options");
  }
  if (!is_dynamic()) {
    // A row that is demoted but not erased would be in two tiers.
    return Status(StatusCode::kUnimplemented, "lower tiers are for dynamic tables; static table '" +
                                                  name() + "' keeps all its rows in memory");
  }
  if (store->record_bytes() != state_.rule->layout().record_bytes()) {
    return FailedPrecondition("a lower tier of table '" + name() + "' must have records of " +
                              std::to_string(state_.rule->layout().record_bytes()) +
                              " bytes. Received: " + std::to_string(store->record_bytes()));
  }
  state_.counted.push_back(new CountedStore(std::move(store)));
  state_.lower_tiers.emplace_back(state_.counted.back());
  return Status::Ok();
}

Status EmbeddingTable::Demote(const int64_t* keys, int64_t n) {
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  if (state_.lower_tiers.empty()) {
    return FailedPrecondition("table '" + name() + "' must have a lower tier to demote rows to");
  }
  const auto record_bytes = static_cast<size_t>(state_.rule->layout().record_bytes());
  std::vector<int64_t> held;
  std::unique_ptr<char[]> records;
  KERAS_SPARSE_RETURN_IF_ERROR(AllocateBytes(n * static_cast<int64_t>(record_bytes), &records));
  for (int64_t i = 0; i < n; ++i) {
    float* record = nullptr;
    state_.first_tier->Find(keys + i, 1, &record);
    if (record == nullptr) continue;
    std::memcpy(records.get() + held.size() * record_bytes, record, record_bytes);
    held.push_back(keys[i]);
  }
  ++state_.version;
  // Erased above only once it is safe below.
  KERAS_SPARSE_RETURN_IF_ERROR(PutBelow(held, std::move(records)));
  for (const int64_t key : held) state_.first_tier->Erase(key);
  return Status::Ok();
}

}  // namespace keras_sparse
