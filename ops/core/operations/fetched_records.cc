#include "ops/core/operations/fetched_records.h"

#include <algorithm>
#include <array>

#include "ops/core/base/wait_timer.h"
#include "ops/core/math/prefetch.h"

namespace keras_sparse {
namespace {

constexpr int64_t kIdsPerFetch = 4096;
constexpr int64_t kNanosecondsPerFetchedId = 20;

}  // namespace

std::vector<int64_t> FetchedRecords::Distinct(const std::vector<std::vector<int64_t>>& lists) {
  size_t size = 0;
  for (const auto& list : lists) size += list.size();
  HashIndex seen(0, static_cast<int64_t>(size));
  std::vector<int64_t> distinct;
  for (const auto& list : lists) {
    for (const int64_t key : list) {
      if (seen.Exchange(HashKey(key), key, 0) == HashIndex::kNoRow) distinct.push_back(key);
    }
  }
  return distinct;
}

std::vector<int64_t> FetchedRecords::WithoutRecord(const std::vector<int64_t>& keys,
                                                   const std::vector<const float*>& records) {
  std::vector<int64_t> without;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (records[i] == nullptr) without.push_back(keys[i]);
  }
  return without;
}

Status FetchedRecords::Fetch(const std::vector<TableIds>& lists, Executor* executor,
                             std::vector<FetchedRecords>* fetched) {
  fetched->clear();
  fetched->resize(lists.size());
  for (size_t l = 0; l < lists.size(); ++l) {
    const TierStack& tiers = lists[l].state->tiers;
    // The usual case while all rows fit the first tier: no row is below, so no id is looked up
    // there.
    if (!tiers.HasRowsBelow()) continue;
    const int64_t num_ids = lists[l].num_ids;
    const int64_t num_tasks = (num_ids + kIdsPerFetch - 1) / kIdsPerFetch;
    std::vector<std::vector<int64_t>> missing(static_cast<size_t>(num_tasks));
    executor->ParallelFor(num_tasks, kIdsPerFetch * kNanosecondsPerFetchedId,
                          [&](int64_t first, int64_t last) {
                            for (int64_t task = first; task < last; ++task) {
                              const int64_t begin = task * kIdsPerFetch;
                              AppendMissing(tiers.first_tier(), lists[l].ids + begin,
                                            std::min(kIdsPerFetch, num_ids - begin),
                                            &missing[static_cast<size_t>(task)]);
                            }
                          });
    KERAS_SPARSE_RETURN_IF_ERROR(
        (*fetched)[l].FetchMissing(tiers, tiers.lower_tiers(), Distinct(missing)));
  }
  return Status::Ok();
}

void FetchedRecords::AppendMissing(const FirstTier& tier, const int64_t* ids, int64_t n,
                                   std::vector<int64_t>* missing) {
  const auto prefetch = [&](int64_t begin) {
    tier.PrefetchIndex(ids + begin, std::min(kBlockRows, n - begin));
  };
  std::array<float*, kBlockRows> records;
  prefetch(0);
  for (int64_t begin = 0; begin < n; begin += kBlockRows) {
    const int64_t end = std::min(n, begin + kBlockRows);
    prefetch(end);
    tier.Find(ids + begin, end - begin, records.data());
    for (int64_t i = begin; i < end; ++i) {
      if (records[static_cast<size_t>(i - begin)] == nullptr) missing->push_back(ids[i]);
    }
  }
}

Status FetchedRecords::FetchMissing(const TierStack& tiers, const RowStores& stores,
                                    const std::vector<int64_t>& keys) {
  const std::vector<const float*> staged = tiers.staged().Find(keys, &batches_);
  const std::vector<int64_t> unread = WithoutRecord(keys, staged);
  if (!unread.empty()) {
    const WaitTimer timer(tiers.waited_ns());
    KERAS_SPARSE_RETURN_IF_ERROR(RecordBatch::Read(stores, unread, &read_));
  }
  const size_t num_read = read_ == nullptr ? 0 : read_->size();
  index_.emplace(0, static_cast<int64_t>(keys.size() - unread.size() + num_read));
  for (size_t i = 0; i < keys.size(); ++i) {
    if (staged[i] != nullptr) Add(keys[i], staged[i]);
  }
  for (size_t i = 0; i < num_read; ++i) Add(read_->keys()[i], read_->record(i));
  return Status::Ok();
}

void FetchedRecords::Add(int64_t key, const float* record) {
  index_->Insert(HashKey(key), key, static_cast<uint32_t>(keys_.size()));
  keys_.push_back(key);
  records_.push_back(record);
}

void FetchedRecords::Stage(const TierStack& tiers) const {
  if (read_ != nullptr && read_->size() > 0) tiers.staged().Add(read_);
}

Status FetchedRecords::EraseCold(TierStack* tiers) const {
  if (empty()) return Status::Ok();
  return tiers->EraseCold(keys_.data(), static_cast<int64_t>(keys_.size()));
}

}  // namespace keras_sparse
