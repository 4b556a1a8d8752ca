#include "ops/core/operations/prefetch_records.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "ops/core/operations/device_operations.h"
#include "ops/core/operations/fetched_records.h"
#include "ops/core/stores/record_batch.h"
#include "ops/core/table/table_locks.h"

namespace keras_sparse {
namespace {

// Ids searched per lock, so that an update waits only briefly.
constexpr int64_t kIdsPerLock = 4096;

Status FetchOf(const PrefetchIds& list, StagedRecords::Hold* hold) {
  RecordsAhead ahead;
  std::vector<int64_t> missing;
  for (int64_t begin = 0; begin < list.num_ids; begin += kIdsPerLock) {
    const ReadLocks locks({list.table});
    const TierStack& tiers = locks[0].tiers;
    if (!tiers.HasRowsBelow()) return Status::Ok();
    if (!ahead.has_begun()) ahead.Begin(tiers, tiers.lower_tiers());
    FetchedRecords::AppendMissing(tiers.first_tier(), list.ids + begin,
                                  std::min(kIdsPerLock, list.num_ids - begin), &missing);
  }
  return missing.empty() ? Status::Ok() : ahead.Read(missing, hold);
}

}  // namespace

Status PrefetchRecords(const std::vector<PrefetchIds>& lists,
                       std::vector<StagedRecords::Hold>* holds) {
  holds->resize(lists.size());
  std::vector<PrefetchIds> on_device;
  std::vector<size_t> places;
  for (size_t i = 0; i < lists.size(); ++i) {
    if (IsOnDevice(*lists[i].table)) {
      on_device.push_back(lists[i]);
      places.push_back(i);
    } else {
      KERAS_SPARSE_RETURN_IF_ERROR(FetchOf(lists[i], &(*holds)[i]));
    }
  }
  if (on_device.empty()) return Status::Ok();
  std::vector<StagedRecords::Hold> held(on_device.size());
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceOperations::Get().prefetch_records(on_device, &held));
  for (size_t i = 0; i < held.size(); ++i) (*holds)[places[i]] = std::move(held[i]);
  return Status::Ok();
}

void RecordsAhead::Begin(const TierStack& tiers, RowStores stores) {
  staged_ = &tiers.staged();
  reading_.emplace(staged_);
  stores_ = std::move(stores);
}

Status RecordsAhead::Read(const std::vector<int64_t>& ids, StagedRecords::Hold* hold) const {
  const std::vector<int64_t> keys = FetchedRecords::Distinct({ids});
  StagedRecords::Batches batches;
  const std::vector<int64_t> unread =
      FetchedRecords::WithoutRecord(keys, staged_->Find(keys, &batches));
  if (unread.empty()) return Status::Ok();
  std::shared_ptr<const RecordBatch> read;
  KERAS_SPARSE_RETURN_IF_ERROR(RecordBatch::Read(stores_, unread, &read));
  if (read->size() > 0) *hold = staged_->Add(std::move(read), *reading_);
  return Status::Ok();
}

}  // namespace keras_sparse
