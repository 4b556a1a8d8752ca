#include "ops/core/table/tier_stack.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "ops/core/base/background_pool.h"
#include "ops/core/base/mutex.h"
#include "ops/core/base/wait_timer.h"
#include "ops/core/first_tier/array_tier.h"
#include "ops/core/first_tier/hash_tier.h"
#include "ops/core/first_tier/transit_tier.h"
#include "ops/core/math/prefetch.h"
#include "ops/core/stores/buffered_store.h"
#include "ops/core/stores/cascade_store.h"

namespace keras_sparse {
namespace {

constexpr int64_t kChunkRows = 65536;
// Some steps' demotions: a step waits only where the store is slower than training all the time.
constexpr int64_t kMaxQueuedBytes = int64_t{64} << 20;
// Keys that wait for a lower tier to erase them, in its queue.
constexpr size_t kErasedKeys = size_t{1} << 20;
constexpr int64_t kNanosecondsPerKey = 20;

}  // namespace

Status TierStack::Open(const RecordLayout& layout, const Initializer& initializer,
                       Executor* executor) {
  const StorageOptions& storage = options_.storage;
  if (storage.device != nullptr) return OpenOnDevice(layout, initializer);
  const TierLimit limit = {first_tier_size(), storage.cache_strategy};
  if (storage.lower_tiers.empty()) {
    if (options_.is_dynamic()) return HashTier::Open(layout, TierLimit(), &first_tier_);
    KERAS_SPARSE_RETURN_IF_ERROR(CheckStaticSize(layout));
    return ArrayTier::Open(options_.input_dim, layout, initializer, executor, &first_tier_);
  }
  if (!options_.is_dynamic()) {
    return Status(
        StatusCode::kUnimplemented,
        "`storage` with lower tiers must be that of a dynamic table: a static table keeps "
        "all its rows in memory. Give table '" +
            options_.name +
            "' input_dim=None. Received: input_dim=" + std::to_string(options_.input_dim));
  }
  if (storage.sizes.size() != storage.lower_tiers.size() + 1 ||
      *std::min_element(storage.sizes.begin(), storage.sizes.end()) < 1) {
    return InvalidArgument("`storage_size` must have a size above 0 for each of the " +
                           std::to_string(storage.lower_tiers.size() + 1) + " tiers of table '" +
                           options_.name + "'");
  }
  KERAS_SPARSE_RETURN_IF_ERROR(HashTier::Open(layout, limit, &first_tier_));
  KERAS_SPARSE_RETURN_IF_ERROR(StorageFolder::Make(FileSystem::Posix(), storage.path, &folder_));
  return OpenStores(layout.record_bytes(), &lower_tiers_, &counted_stores_);
}

Status TierStack::OpenOnDevice(const RecordLayout& layout, const Initializer& initializer) {
  KERAS_SPARSE_RETURN_IF_ERROR(CheckStaticSize(layout));
  const StorageOptions& storage = options_.storage;
  std::unique_ptr<HbmStore> store;
  KERAS_SPARSE_RETURN_IF_ERROR(HbmStore::Open(storage.device.get(), options_.input_dim,
                                              layout.record_bytes(), first_tier_size(), &store));
  hbm_store_ = store.get();
  first_tier_ = std::make_unique<TransitTier>(options_.input_dim, layout);
  counted_stores_.push_back(new CountedStore(std::move(store)));
  lower_tiers_.emplace_back(counted_stores_.back());
  return hbm_store_->Initialize(initializer.rows(), layout, 0);
}

Status TierStack::OpenStores(int64_t record_bytes, RowStores* stores,
                             std::vector<CountedStore*>* counted_stores) {
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
    counted_stores->push_back(new CountedStore(std::move(opened[i])));
    opened[i].reset(counted_stores->back());
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

Status TierStack::AddLowerTier(std::unique_ptr<RowStore> store, int64_t record_bytes) {
  if (folder_ != nullptr) {
    return FailedPrecondition("the lower tiers of table '" + options_.name +
                              "' must be those of its options");
  }
  if (!options_.is_dynamic()) {
    // A row that is demoted but not erased would be in two tiers.
    return Status(StatusCode::kUnimplemented, "lower tiers are for dynamic tables; static table '" +
                                                  options_.name + "' keeps all its rows in memory");
  }
  if (store->record_bytes() != record_bytes) {
    return FailedPrecondition("a lower tier of table '" + options_.name +
                              "' must have records of " + std::to_string(record_bytes) +
                              " bytes. Received: " + std::to_string(store->record_bytes()));
  }
  counted_stores_.push_back(new CountedStore(std::move(store)));
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
  // The order is that of the keys, not that of the threads.
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
  // What cannot be written fails the next change. Here it counts where it is.
  for (const auto& store : lower_tiers_) (void)store->Flush();
}

Status TierStack::CheckMemory() const {
  if (first_tier_size() == INT64_MAX || !lower_tiers_.empty() || !options_.is_dynamic()) {
    return Status::Ok();
  }
  const int64_t bytes = first_tier_->bytes() - first_tier_->free_bytes();
  if (bytes <= first_tier_size()) return Status::Ok();
  return ResourceExhausted("`storage_size` must hold all rows of table '" + options_.name +
                           "', which has no lower tier; give it more, or a lower tier by "
                           "`storage_type`, or evict rows. Received: " +
                           std::to_string(first_tier_size()) + " bytes where " +
                           std::to_string(first_tier_->num_rows()) + " rows take " +
                           std::to_string(bytes));
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
  if (hbm_store_ == nullptr && !lower_tiers_.empty() && folder_ == nullptr) {
    return FailedPrecondition("the rule of table '" + options_.name +
                              "' must be set before a lower tier is added to it");
  }
  if (hbm_store_ != nullptr) {
    KERAS_SPARSE_RETURN_IF_ERROR(hbm_store_->Relayout(from, to, step));
    change_log_.SetEverything();
    return first_tier_->Relayout(to, step, executor);
  }
  RowStores stores;
  std::vector<CountedStore*> counted_stores;
  KERAS_SPARSE_RETURN_IF_ERROR(OpenStores(to.record_bytes(), &stores, &counted_stores));
  KERAS_SPARSE_RETURN_IF_ERROR(FillStores(from, to, step, stores));
  // Memory comes last, as it may fail too: until then all tiers have their records as they were.
  KERAS_SPARSE_RETURN_IF_ERROR(first_tier_->Relayout(to, step, executor));
  lower_tiers_ = std::move(stores);
  counted_stores_ = std::move(counted_stores);
  for (CountedStore* store : counted_stores_) store->CountAnew();
  staged_->Clear();
  change_log_.SetEverything();
  return Status::Ok();
}

Status TierStack::FillStores(const RecordLayout& from, const RecordLayout& to, int64_t step,
                             const RowStores& stores) const {
  for (size_t i = 0; i < stores.size(); ++i) {
    const RowStore& old = *lower_tiers_[i];
    for (int64_t cursor = 0; cursor >= 0;) {
      std::vector<int64_t> keys;
      std::vector<char> records;
      KERAS_SPARSE_RETURN_IF_ERROR(old.Walk(cursor, kChunkRows, &keys, &records, &cursor));
      std::vector<char> laid_out(keys.size() * static_cast<size_t>(to.record_bytes()));
      for (size_t k = 0; k < keys.size(); ++k) {
        const char* record = records.data() + static_cast<int64_t>(k) * old.record_bytes();
        char* place = laid_out.data() + static_cast<int64_t>(k) * to.record_bytes();
        to.LayOut(from, reinterpret_cast<const float*>(record), step,
                  reinterpret_cast<float*>(place));
      }
      KERAS_SPARSE_RETURN_IF_ERROR(
          stores[i]->Put(keys.data(), static_cast<int64_t>(keys.size()), laid_out.data()));
    }
    // The old ones go only once the new ones have all.
    KERAS_SPARSE_RETURN_IF_ERROR(stores[i]->Flush());
  }
  return Status::Ok();
}

Status TierStack::DemoteExcess(Executor* executor) {
  return first_tier_->DemoteExcess(
      executor, [this](const std::vector<int64_t>& keys, std::unique_ptr<char[]> records) {
        return PutBelow(keys, std::move(records));
      });
}

// The lower tiers of the options are written behind a queue: what cannot be written, because the
// disk is full perhaps, fails a later call than the one that put it, before that one takes
// anything. Until then it is read from the queue, and no row is lost.
Status TierStack::PutBelow(const std::vector<int64_t>& keys, std::unique_ptr<char[]> records) {
  const auto n = static_cast<int64_t>(keys.size());
  staged_->Drop(keys.data(), n);
  LogDemoted(keys);
  const WaitTimer timer(&waited_ns_);
  const Status put = lower_tiers_[0]->PutOwned(keys.data(), n, std::move(records));
  // The rows stay above. What has come down all the same would be out of date with their next
  // update, and a file that is linked then has nothing above it.
  if (put.ok()) return put;
  (void)lower_tiers_[0]->Erase(keys.data(), n);
  return Status(put.code(), "table '" + options_.name + "': " + put.message());
}

void TierStack::LogDemoted(const std::vector<int64_t>& keys) {
  if (change_log_.is_everything()) return;
  for (const int64_t key : keys) {
    if (first_tier_->IsChanged(key)) change_log_.AddDemoted(key);
  }
}

Status TierStack::EraseBelow(const int64_t* keys, int64_t n) {
  staged_->Drop(keys, n);
  const WaitTimer timer(&waited_ns_);
  for (const auto& store : lower_tiers_) KERAS_SPARSE_RETURN_IF_ERROR(store->Erase(keys, n));
  return Status::Ok();
}

Status TierStack::EraseEverywhere(const std::vector<int64_t>& keys, size_t num_above) {
  for (const int64_t key : keys) change_log_.AddErased(key);
  // Of all keys, and below first: a row above may have an old copy there, which must not come up.
  if (HasRowsBelow()) {
    for (CountedStore* store : counted_stores_) store->CountErasures(false);
    Status status;
    for (size_t begin = 0; begin < keys.size() && status.ok(); begin += kErasedKeys) {
      const size_t n = std::min(kErasedKeys, keys.size() - begin);
      status = EraseBelow(&keys[begin], static_cast<int64_t>(n));
      WaitForWrites();
    }
    for (CountedStore* store : counted_stores_) store->CountErasures(true);
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
  change_log_.SetEverything();
  for (size_t i = hbm_store_ == nullptr ? 0 : 1; i < lower_tiers_.size(); ++i) {
    KERAS_SPARSE_RETURN_IF_ERROR(lower_tiers_[i]->Clear());
  }
  if (hbm_store_ != nullptr) {
    KERAS_SPARSE_RETURN_IF_ERROR(hbm_store_->Initialize(initializer.rows(), layout, step));
  }
  return first_tier_->Clear(initializer, step, executor);
}

void TierStack::TrackChanges() {
  if (hbm_store_ != nullptr) return;  // it does not know which of its rows have changed
  first_tier_->TrackChanges();
  change_log_.Begin();
}

}  // namespace keras_sparse
