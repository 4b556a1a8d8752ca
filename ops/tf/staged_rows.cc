#include "ops/tf/staged_rows.h"

#include <algorithm>

#include "ops/core/fetched_records.h"
#include "ops/tf/output_allocator.h"

namespace keras_sparse {

Status ReadyRows::FetchAhead(const std::vector<LookupRequest>& requests) {
  for (const LookupRequest& request : requests) {
    holds_.emplace_back();
    KERAS_SPARSE_RETURN_IF_ERROR(FetchedRecords::FetchAhead(
        {request.table, request.ids, request.bags.num_ids}, &holds_.back()));
  }
  return Status::Ok();
}

Status ReadyRows::Read(std::vector<LookupRequest> requests, int64_t max_staleness) {
  max_staleness_ = max_staleness;
  num_updates_.resize(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    LookupRequest& request = requests[i];
    const tf::TensorShape shape({request.bags.num_bags, request.table->dim()});
    outputs_.emplace_back(OutputAllocator::Get(), tf::DT_FLOAT, shape);
    if (!outputs_.back().IsInitialized()) {
      return ResourceExhausted("the output must fit memory. Received: shape=" +
                               shape.DebugString());
    }
    request.rows = outputs_.back().flat<float>().data();
    request.version = nullptr;
    request.num_updates = &num_updates_[i];
  }
  InlineExecutor executor;
  return LookupRows(requests, &executor);
}

int64_t ReadyRows::Staleness(const std::vector<uint32_t>& num_updates) const {
  int64_t staleness = 0;
  for (size_t i = 0; i < num_updates_.size(); ++i) {
    staleness = std::max<int64_t>(staleness, num_updates[i] - num_updates_[i]);
  }
  return staleness;
}

absl::Status TakeReadyRows(std::vector<LookupRequest>* requests,
                           std::unique_ptr<ReadyRows>* ready) {
  if (requests->empty()) return absl::OkStatus();
  StagingArea& area = *requests->front().table->staging_area();
  if (!area.MayHaveAny()) return absl::OkStatus();
  const std::shared_ptr<StagedLookup> lookup = area.Take(FingerprintOf(*requests));
  std::unique_ptr<StagedRows> rows;
  int64_t waited_ns = 0;
  if (lookup != nullptr) TF_RETURN_IF_ERROR(ToTf(lookup->Use(&rows, &waited_ns)));
  if (rows == nullptr) {
    area.CountMissed();
    return absl::OkStatus();
  }
  ready->reset(static_cast<ReadyRows*>(rows.release()));
  int64_t staleness = 0;
  if ((*ready)->has_outputs()) {
    std::vector<uint32_t> num_updates(requests->size());
    for (size_t i = 0; i < requests->size(); ++i) (*requests)[i].num_updates = &num_updates[i];
    SeeVersions(*requests);
    for (LookupRequest& request : *requests) request.num_updates = nullptr;
    staleness = (*ready)->Staleness(num_updates);
    if (staleness > (*ready)->max_staleness()) {
      ready->reset();
      area.CountMissed();
      return absl::OkStatus();
    }
  }
  area.CountUsed(waited_ns, std::max<int64_t>(0, lookup->work_ns() - waited_ns), staleness);
  return absl::OkStatus();
}

}  // namespace keras_sparse
