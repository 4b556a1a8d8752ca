#include "ops/tf/staging/prefetched_rows.h"

#include <algorithm>

#include "ops/core/operations/prefetch_records.h"
#include "ops/tf/binding/lookup_outputs.h"

namespace keras_sparse {

Status PrefetchedRows::PrefetchRecords(const std::vector<LookupRequest>& requests) {
  std::vector<PrefetchIds> lists;
  for (const LookupRequest& request : requests) {
    lists.push_back({request.table, request.ids, request.bags.num_ids});
  }
  return keras_sparse::PrefetchRecords(lists, &holds_);
}

Status PrefetchedRows::Read(std::vector<LookupRequest> requests, int64_t max_staleness,
                            tf::Allocator* memory) {
  max_staleness_ = max_staleness;
  num_updates_.resize(requests.size());
  versions_.resize(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].version = &versions_[i];
    requests[i].num_updates = &num_updates_[i];
  }
  const absl::Status allocated = AllocateRows(&requests, &outputs_, memory);
  if (!allocated.ok()) return FromTf(allocated);
  InlineExecutor executor;
  return LookupRowsFromHost(requests, &executor);
}

int64_t PrefetchedRows::Staleness(const std::vector<LookupRequest>& requests) const {
  int64_t staleness = 0;
  for (size_t i = 0; i < versions_.size(); ++i) {
    const int64_t missed = *requests[i].num_updates - num_updates_[i];
    if (*requests[i].version - versions_[i] != missed) return -1;
    staleness = std::max(staleness, missed);
  }
  return staleness <= max_staleness_ ? staleness : -1;
}

absl::Status TakePrefetchedRows(PrefetchBuffer* area, std::vector<LookupRequest>* requests,
                                std::unique_ptr<PrefetchedRows>* ready) {
  if (!area->MayHaveAny()) return absl::OkStatus();
  Fingerprint fingerprint;
  TF_RETURN_IF_ERROR(ToTf(FingerprintOfStep(*requests, &fingerprint)));
  std::vector<uint32_t> num_updates(requests->size());
  // Several if batches are equal, or an iterator was abandoned: takes the oldest first.
  while (const std::shared_ptr<StagedLookup> lookup = area->Take(fingerprint)) {
    std::unique_ptr<StagedRows> rows;
    int64_t waited_ns = 0;
    const Status used = lookup->Use(&rows, &waited_ns);
    if (!used.ok()) area->CountDropped();
    TF_RETURN_IF_ERROR(ToTf(used));
    if (rows == nullptr) continue;
    ready->reset(static_cast<PrefetchedRows*>(rows.release()));
    for (size_t i = 0; i < requests->size(); ++i) (*requests)[i].num_updates = &num_updates[i];
    ReadVersions(*requests);
    const int64_t staleness = (*ready)->Staleness(*requests);
    for (LookupRequest& request : *requests) request.num_updates = nullptr;
    if (staleness >= 0) {
      const int64_t hidden_ns = std::max<int64_t>(0, lookup->work_ns() - waited_ns);
      area->CountUsed(waited_ns, hidden_ns, staleness);
      return absl::OkStatus();
    }
    area->CountDropped();
    ready->reset();
  }
  area->CountMissed();
  return absl::OkStatus();
}

}  // namespace keras_sparse
