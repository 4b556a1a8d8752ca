#include "ops/core/table/tier_stack.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "ops/core/base/mutex.h"
#include "ops/core/base/wait_timer.h"
#include "ops/core/first_tier/cache_strategy.h"
#include "ops/core/first_tier/dense_array_tier.h"
#include "ops/core/first_tier/hash_table_tier.h"
#include "ops/core/math/prefetch.h"
#include "ops/core/stores/lone_tier.h"

namespace keras_sparse {
namespace {

// Maximum number of queued keys that a lower tier has still to erase.
constexpr size_t kErasedKeys = size_t{1} << 20;
constexpr int64_t kNanosecondsPerKey = 20;

// A tier in memory has no files.
bool HasFiles(const std::string& kind) { return kind != "dram"; }

}  // namespace

Status TierStack::Open(const RecordLayout& layout, const Initializer& initializer,
                       Executor* executor) {
  const StorageOptions& storage = options_.storage;
  if (options_.has_lower_tiers()) KERAS_SPARSE_RETURN_IF_ERROR(CheckOptions());
  if (storage.device != nullptr) {
    KERAS_SPARSE_RETURN_IF_ERROR(OpenOnDevice(layout, initializer));
  } else if (options_.is_dynamic()) {
    const int64_t bytes = options_.has_lower_tiers() ? first_tier_size() : INT64_MAX;
    KERAS_SPARSE_RETURN_IF_ERROR(
        HashTableTier::Open(layout, {bytes, storage.cache_strategy}, &first_tier_));
  } else {
    KERAS_SPARSE_RETURN_IF_ERROR(CheckStaticSize(layout));
    return DenseArrayTier::Open(options_.input_dim, layout, initializer, executor, &first_tier_);
  }
  if (std::any_of(storage.lower_tiers.begin(), storage.lower_tiers.end(), HasFiles)) {
    KERAS_SPARSE_RETURN_IF_ERROR(StorageFolder::Make(FileSystem::Posix(), storage.path, &folder_));
  }
  StoreStack stack;
  KERAS_SPARSE_RETURN_IF_ERROR(OpenStores(layout.record_bytes(), &stack));
  AddStores(std::move(stack));
  return Status::Ok();
}

Status TierStack::CheckOptions() const {
  const StorageOptions& storage = options_.storage;
  if (!options_.is_dynamic()) {
    return Status(
        StatusCode::kUnimplemented,
        "`storage` with lower tiers must be that of a dynamic table: a static table keeps "
        "all its rows in its first tier. Give table '" +
            options_.name +
            "' input_dim=None. Received: input_dim=" + std::to_string(options_.input_dim));
  }
  if (storage.sizes.size() != storage.lower_tiers.size() + 1 ||
      *std::min_element(storage.sizes.begin(), storage.sizes.end()) < 1) {
    return InvalidArgument("`storage_size` must have a size above 0 for each of the " +
                           std::to_string(storage.lower_tiers.size() + 1) + " tiers of table '" +
                           options_.name + "'");
  }
  std::unique_ptr<CacheStrategy> order;
  return CacheStrategy::Create(storage.cache_strategy, &order);
}

Status TierStack::OpenOnDevice(const RecordLayout& layout, const Initializer& initializer) {
  KERAS_SPARSE_RETURN_IF_ERROR(CheckStaticSize(layout));
  const StorageOptions& storage = options_.storage;
  KERAS_SPARSE_RETURN_IF_ERROR(CheckDeviceSize(storage.device->memory_bytes()));
  HbmLimit limit = {first_tier_size(), {}, options_.name};
  if (options_.has_lower_tiers()) limit.strategy = storage.cache_strategy;
  std::unique_ptr<HbmStore> store;
  KERAS_SPARSE_RETURN_IF_ERROR(
      WithTable(options_.name, HbmStore::Open(storage.device.get(), options_.input_dim,
                                              layout.record_bytes(), limit, &store)));
  hbm_store_ = store.get();
  first_tier_ = std::make_unique<StagingTier>(layout);
  counted_stores_.push_back(new InstrumentedStore(std::move(store)));
  lower_tiers_.emplace_back(counted_stores_.back());
  return hbm_store_->Initialize(initializer.rows(), layout, 0);
}

Status TierStack::CheckDeviceSize(int64_t bytes) const {
  const int64_t size = first_tier_size();
  if (bytes == 0 || size == INT64_MAX || size <= bytes) return Status::Ok();
  return ResourceExhausted("`storage_size` of table '" + options_.name +
                           "' must be no more than what tables may have of the GPU's memory, with "
                           "room beside it; give it less. Received: " +
                           std::to_string(size) + " bytes where there are " +
                           std::to_string(bytes));
}

Status TierStack::OpenStores(int64_t record_bytes, StoreStack* stack) {
  const std::vector<std::string>& kinds = options_.storage.lower_tiers;
  std::vector<StoreOptions> stores(kinds.size());
  for (size_t i = 0; i < kinds.size(); ++i) {
    stores[i].kind = kinds[i];
    if (HasFiles(kinds[i])) {
      stores[i].folder =
          folder_->path() + "/" + kinds[i] + "-" + std::to_string(num_stores_opened_++);
    }
    stores[i].record_bytes = record_bytes;
    stores[i].capacity = options_.storage.sizes[i + 1];
    stores[i].keeps_order = i + 1 < kinds.size();
  }
  return StoreStack::Open(stores, stack);
}

void TierStack::AddStores(StoreStack stack) {
  if (stack.store == nullptr) return;
  lower_tiers_.emplace_back(std::move(stack.store));
  counted_stores_.insert(counted_stores_.end(), stack.counted_stores.begin(),
                         stack.counted_stores.end());
}

Status TierStack::AddLowerTier(std::unique_ptr<RowStore> store, int64_t record_bytes) {
  if (options_.has_lower_tiers()) {
    return FailedPrecondition("the lower tiers of table '" + options_.name +
                              "' must be those of its options");
  }
  if (!options_.is_dynamic()) {
    // Static tables cannot erase a demoted row above, so the row would be in two tiers.
    return Status(StatusCode::kUnimplemented, "lower tiers are for dynamic tables; static table '" +
                                                  options_.name + "' keeps all its rows in memory");
  }
  if (store->record_bytes() != record_bytes) {
    return FailedPrecondition("a lower tier of table '" + options_.name +
                              "' must have records of " + std::to_string(record_bytes) +
                              " bytes. Received: " + std::to_string(store->record_bytes()));
  }
  counted_stores_.push_back(new InstrumentedStore(std::move(store)));
  lower_tiers_.emplace_back(counted_stores_.back());
  return Status::Ok();
}

int64_t TierStack::first_tier_size() const {
  return options_.storage.sizes.empty() ? INT64_MAX : options_.storage.sizes[0];
}

int64_t TierStack::num_rows() const {
  int64_t rows = first_tier_->num_rows();
  for (const auto& store : lower_tiers_) rows += store->num_rows();
  return rows;
}

int64_t TierStack::bytes() const {
  int64_t bytes = first_tier_->bytes() + staged_->bytes() + change_log_.bytes();
  for (const auto& store : lower_tiers_) bytes += store->bytes() + store->memory_bytes();
  return bytes;
}

int64_t TierStack::first_tier_bytes() const {
  return hbm_store_ == nullptr ? first_tier_->bytes() : hbm_store_->bytes();
}

int64_t TierStack::peak_first_tier_bytes() const {
  return std::max(peak_first_tier_bytes_, first_tier_bytes());
}

void TierStack::SeeFirstTierBytes() { peak_first_tier_bytes_ = peak_first_tier_bytes(); }

bool TierStack::IsInFirstTier(int64_t key) const {
  float* record = nullptr;
  first_tier_->Find(&key, 1, &record);
  return record != nullptr;
}

bool TierStack::HasRowsBelow() const {
  return std::any_of(lower_tiers_.begin(), lower_tiers_.end(),
                     [](const auto& store) { return store->num_rows() > 0; });
}

bool TierStack::HasLowerTierReads() const {
  return std::any_of(lower_tiers_.begin() + num_above_cold(), lower_tiers_.end(),
                     [](const auto& store) { return store->num_rows() > 0; });
}

std::vector<bool> TierStack::AreAbove(size_t num_lower_tiers,
                                      const std::vector<int64_t>& keys) const {
  const auto n = static_cast<int64_t>(keys.size());
  std::vector<float*> records(keys.size());
  first_tier_->Find(keys.data(), n, records.data());
  std::vector<bool> above(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) above[i] = records[i] != nullptr;
  const auto found = std::make_unique<bool[]>(keys.size());
  for (size_t t = 0; t < num_lower_tiers; ++t) {
    lower_tiers_[t]->Contains(keys.data(), n, found.get());
    for (size_t i = 0; i < keys.size(); ++i) above[i] = above[i] || found[i];
  }
  return above;
}

std::vector<int64_t> TierStack::KeysWithoutRow(const int64_t* keys, int64_t n,
                                               Executor* executor) const {
  Mutex mutex;
  std::vector<int64_t> without;
  executor->ParallelFor(n, kNanosecondsPerKey, [&](int64_t begin, int64_t end) {
    std::vector<int64_t> missing;
    std::array<float*, kBlockRows> records;
    first_tier_->PrefetchIndex(keys + begin, std::min(kBlockRows, end - begin));
    for (; begin < end; begin += kBlockRows) {
      const int64_t size = std::min(kBlockRows, end - begin);
      first_tier_->PrefetchIndex(keys + begin + size, std::min(kBlockRows, end - begin - size));
      first_tier_->Find(keys + begin, size, records.data());
      for (int64_t i = 0; i < size; ++i) {
        if (records[static_cast<size_t>(i)] == nullptr) missing.push_back(keys[begin + i]);
      }
    }
    const MutexLock lock(mutex);
    without.insert(without.end(), missing.begin(), missing.end());
  });
  // Sorted, so that the order does not depend on threads.
  std::sort(without.begin(), without.end());
  without.erase(std::unique(without.begin(), without.end()), without.end());
  if (lower_tiers_.empty() || without.empty()) return without;
  const std::vector<bool> have_row = AreAbove(lower_tiers_.size(), without);
  size_t kept = 0;
  for (size_t i = 0; i < without.size(); ++i) {
    if (!have_row[i]) without[kept++] = without[i];
  }
  without.resize(kept);
  return without;
}

void TierStack::WaitForWrites() const {
  // A failed write surfaces in the next change. Until then the row counts where it is.
  for (const auto& store : lower_tiers_) (void)store->Flush();
}

Status TierStack::CheckMemory() const {
  if (first_tier_size() == INT64_MAX || !lower_tiers_.empty() || !options_.is_dynamic()) {
    return Status::Ok();
  }
  const int64_t bytes = first_tier_->bytes() - first_tier_->free_bytes();
  if (bytes <= first_tier_size()) return Status::Ok();
  return LoneTierIsFull(options_.name, first_tier_size(), first_tier_->num_rows(), bytes);
}

Status TierStack::CheckStaticSize(const RecordLayout& layout) const {
  if (options_.is_dynamic() || options_.input_dim <= first_tier_size() / layout.record_bytes()) {
    return Status::Ok();
  }
  return ResourceExhausted(
      "`storage_size` must hold all rows of static table '" + options_.name +
      "' with their slots; give it more. Received: " + std::to_string(first_tier_size()) +
      " bytes for " + std::to_string(options_.input_dim) + " rows of " +
      std::to_string(layout.record_bytes()) + " bytes");
}

Status TierStack::Relayout(const RecordLayout& from, const RecordLayout& to, int64_t step,
                           Executor* executor) {
  if (HasAddedTiers()) {
    return FailedPrecondition("the rule of table '" + options_.name +
                              "' must be set before a lower tier is added to it");
  }
  StoreStack stack;
  KERAS_SPARSE_RETURN_IF_ERROR(OpenStores(to.record_bytes(), &stack));
  if (stack.store != nullptr) {
    KERAS_SPARSE_RETURN_IF_ERROR(
        LayOutStore(*lower_tiers_.back(), from, to, step, stack.store.get()));
  }
  // The first tier is rewritten last because it may fail too: until then all tiers keep their
  // records.
  if (hbm_store_ != nullptr) KERAS_SPARSE_RETURN_IF_ERROR(hbm_store_->Relayout(from, to, step));
  KERAS_SPARSE_RETURN_IF_ERROR(first_tier_->Relayout(to, step, executor));
  if (stack.store != nullptr) {
    lower_tiers_.pop_back();
    counted_stores_.resize(static_cast<size_t>(num_above_cold()));
    AddStores(std::move(stack));
  }
  for (InstrumentedStore* store : counted_stores_) store->CountAnew();
  staged_->Clear();
  SetEverythingChanged();
  return Status::Ok();
}

void TierStack::BeginUpdate() {
  first_tier_->BeginUpdate();
  if (hbm_store_ != nullptr) hbm_store_->BeginUpdate();
}

Status TierStack::DemoteExcess(Executor* executor) {
  const auto demote = [&] {
    return first_tier_->DemoteExcess(
        executor, [this](const std::vector<int64_t>& keys, std::unique_ptr<char[]> records) {
          return PutBelow(keys, std::move(records));
        });
  };
  const Status moved = demote();
  if (hbm_store_ == nullptr) return moved;
  KERAS_SPARSE_RETURN_IF_ERROR(DemoteFromGpu());
  return moved.ok() ? moved : demote();  // retry: there may be room now
}

Status TierStack::DemoteFromGpu() {
  if (!options_.has_lower_tiers()) return Status::Ok();
  HbmStore::Excess excess;
  KERAS_SPARSE_RETURN_IF_ERROR(hbm_store_->ReadExcess(&excess));
  const std::vector<int64_t>& keys = excess.keys;
  if (keys.empty()) return Status::Ok();
  for (const int64_t key : excess.changed) change_log_.AddDemoted(key);
  KERAS_SPARSE_RETURN_IF_ERROR(PutInto(1, keys, std::move(excess.records)));
  return lower_tiers_[0]->EraseMoved(keys.data(), static_cast<int64_t>(keys.size()));
}

Status TierStack::PutBelow(const std::vector<int64_t>& keys, std::unique_ptr<char[]> records) {
  // A store in a GPU's memory tracks its own changed rows.
  const bool logs = hbm_store_ == nullptr && !change_log_.is_everything();
  for (size_t i = 0; i < keys.size() && logs; ++i) {
    if (first_tier_->IsChanged(keys[i])) change_log_.AddDemoted(keys[i]);
  }
  return PutInto(0, keys, std::move(records));
}

// Lower tiers of the options are written through a queue. If a write fails, for example on a full
// disk, a later call returns the error before it takes any row. Until then rows are read from the
// queue, and no row is lost.
Status TierStack::PutInto(size_t tier, const std::vector<int64_t>& keys,
                          std::unique_ptr<char[]> records) {
  const auto n = static_cast<int64_t>(keys.size());
  staged_->Drop(keys.data(), n);
  const WaitTimer timer(&waited_ns_);
  RowStore* store = lower_tiers_[tier].get();
  const Status put = store->PutOwned(keys.data(), n, std::move(records));
  // The rows stay above. Copies that did reach the tier would be stale after the next update, and a
  // file linked then has nothing above it.
  if (put.ok()) return put;
  (void)store->Erase(keys.data(), n);
  return Status(put.code(), "table '" + options_.name + "': " + put.message());
}

// From the last tier up, so that a copy left by a failed erase always has the row above it.
Status TierStack::EraseFrom(int64_t first, const int64_t* keys, int64_t n) {
  staged_->Drop(keys, n);
  const WaitTimer timer(&waited_ns_);
  for (auto i = static_cast<int64_t>(lower_tiers_.size()); i > first; --i) {
    KERAS_SPARSE_RETURN_IF_ERROR(lower_tiers_[static_cast<size_t>(i - 1)]->Erase(keys, n));
  }
  return Status::Ok();
}

Status TierStack::EraseEverywhere(const std::vector<int64_t>& keys, size_t num_above) {
  for (const int64_t key : keys) change_log_.AddErased(key);
  // Erases all keys, lower tiers first: a row above may have an old copy below, which must not be
  // promoted.
  if (HasRowsBelow()) {
    for (InstrumentedStore* store : counted_stores_) store->CountErasures(false);
    Status status;
    for (size_t begin = 0; begin < keys.size() && status.ok(); begin += kErasedKeys) {
      const size_t n = std::min(kErasedKeys, keys.size() - begin);
      status = EraseBelow(&keys[begin], static_cast<int64_t>(n));
      WaitForWrites();
    }
    for (InstrumentedStore* store : counted_stores_) store->CountErasures(true);
    KERAS_SPARSE_RETURN_IF_ERROR(status);
  }
  constexpr auto kAhead = static_cast<size_t>(kBlockRows);
  for (size_t i = 0; i < num_above; ++i) {
    if (i % kAhead == 0 && i + kAhead < num_above) {
      first_tier_->PrefetchIndex(&keys[i + kAhead],
                                 static_cast<int64_t>(std::min(kAhead, num_above - i - kAhead)));
    }
    (void)first_tier_->Erase(keys[i]);
  }
  return Status::Ok();
}

Status TierStack::Clear(const RecordLayout& layout, const Initializer& initializer, int64_t step,
                        Executor* executor) {
  staged_->Clear();
  SetEverythingChanged();
  for (const auto& store : cold_stores()) KERAS_SPARSE_RETURN_IF_ERROR(store->Clear());
  if (hbm_store_ != nullptr) {
    KERAS_SPARSE_RETURN_IF_ERROR(hbm_store_->Initialize(initializer.rows(), layout, step));
  }
  return first_tier_->Clear(initializer, step, executor);
}

void TierStack::TrackChanges() {
  if (hbm_store_ != nullptr && !hbm_store_->TrackChanges().ok()) return SetEverythingChanged();
  first_tier_->TrackChanges();
  change_log_.Begin();
}

void TierStack::SetEverythingChanged() {
  change_log_.SetEverything();
  if (hbm_store_ != nullptr) hbm_store_->ForgetChanges();
}

}  // namespace keras_sparse
