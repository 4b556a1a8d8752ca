#include "ops/core/device/device_array.h"
#include "ops/core/ids/bags_hash.h"
#include "ops/core/operations/device_operations.h"
#include "ops/core/operations/lookup_tables.h"
#include "ops/core/operations/prefetch_records.h"
#include "ops/core/operations/row_lookup_result.h"
#include "ops/core/table/table_locks.h"

namespace keras_sparse::cuda_impl {
namespace {

// Returns whether an id may have a record below the GPU's memory. Nothing is staged for a table
// whose rows wait for room on the GPU: its step returns the error if they still do.
bool HasLowerTierReads(const TierStack& tiers) {
  return tiers.HasLowerTierReads() && tiers.first_tier().num_rows() == 0;
}

// The search for an op's ids that are not on the GPU.
class Search {
 public:
  // Enqueues the search on the GPU.
  Status Begin(const std::vector<PrefetchIds>& lists, Device* device);
  // Waits for the search, then reads the records of these ids.
  Status Finish(std::vector<StagedRecords::Hold>* holds) const;

 private:
  std::vector<DeviceArray<int64_t>> ids_;
  std::vector<RecordsAhead> ahead_;
  std::vector<size_t> searched_;  // the lists that are searched
  RowLookupResult found_;
  CollectedIds missing_;
};

Status Search::Begin(const std::vector<PrefetchIds>& lists, Device* device) {
  ids_.resize(lists.size());
  ahead_ = std::vector<RecordsAhead>(lists.size());
  // Before the lock, because copying many ids may take as long as the search itself.
  for (size_t i = 0; i < lists.size(); ++i) {
    if (!lists[i].table->options().has_lower_tiers()) continue;
    KERAS_SPARSE_RETURN_IF_ERROR(
        DeviceArray<int64_t>::Copy(device, lists[i].ids, lists[i].num_ids, &ids_[i]));
  }
  const ReadLocks locks(TablesOf(lists));
  std::vector<TableIds> to_search;
  std::vector<size_t> places;
  for (size_t i = 0; i < lists.size(); ++i) {
    const TierStack& tiers = locks[i].tiers;
    if (ids_[i].size() == 0 || !HasLowerTierReads(tiers)) continue;
    ahead_[i].Begin(tiers, tiers.cold_stores());
    places.push_back(searched_.size());
    searched_.push_back(i);
    to_search.push_back({&locks[i], ids_[i].data(), ids_[i].size()});
  }
  if (searched_.empty()) return Status::Ok();
  KERAS_SPARSE_RETURN_IF_ERROR(RowLookupResult::Find(to_search, device, &found_));
  return found_.CollectMissing(places, &missing_);
}

Status Search::Finish(std::vector<StagedRecords::Hold>* holds) const {
  if (searched_.empty()) return Status::Ok();
  std::vector<std::vector<int64_t>> missing;
  KERAS_SPARSE_RETURN_IF_ERROR(missing_.Read(&missing));
  for (size_t i = 0; i < searched_.size(); ++i) {
    const size_t list = searched_[i];
    KERAS_SPARSE_RETURN_IF_ERROR(ahead_[list].Read(missing[i], &(*holds)[list]));
  }
  return Status::Ok();
}

Status PrefetchRecords(const std::vector<PrefetchIds>& lists,
                       std::vector<StagedRecords::Hold>* holds) {
  Device* device = nullptr;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceOf(lists, &device));
  const DeviceScope scope(*device);
  Search search;
  const Status begun = search.Begin(lists, device);
  // While a step computes, the GPU may have no room for the search: the step then reads its records
  // itself.
  if (begun.code() == StatusCode::kResourceExhausted) return Status::Ok();
  KERAS_SPARSE_RETURN_IF_ERROR(begun);
  return search.Finish(holds);
}

Status HashLookup(const std::vector<LookupRequest>& lookup, std::vector<BagsHash>* hashes) {
  Device* device = nullptr;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceOf(lookup, &device));
  const DeviceScope scope(*device);
  std::vector<BagsToHash> lists;
  for (const LookupRequest& each : lookup) lists.push_back({each.ids, each.bags});
  return HashOf(lists, device, hashes);
}

const bool kRegistered = [] {
  DeviceOperations::Get().prefetch_records = PrefetchRecords;
  DeviceOperations::Get().hash_lookup = HashLookup;
  return true;
}();

}  // namespace
}  // namespace keras_sparse::cuda_impl
