// PrefetchedRows: what a LookupPrefetcher prepares for the op KerasSparseLookup.
#ifndef KERAS_SPARSE_OPS_TF_STAGING_PREFETCHED_ROWS_H_
#define KERAS_SPARSE_OPS_TF_STAGING_PREFETCHED_ROWS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ops/core/operations/lookup.h"
#include "ops/core/staging/lookup_prefetcher.h"
#include "ops/core/table/staged_records.h"
#include "ops/tf/binding/binding.h"
#include "tensorflow/core/framework/resource_base.h"

namespace keras_sparse {

// A stage as a resource of TensorFlow: the last handle to it stops the stage.
class LookupPrefetcherResource : public tf::ResourceBase {
 public:
  explicit LookupPrefetcherResource(std::shared_ptr<LookupPrefetcher> stage)
      : stage_(std::move(stage)) {}
  ~LookupPrefetcherResource() override { stage_->Stop(); }
  std::string DebugString() const override { return "LookupPrefetcher"; }
  const std::shared_ptr<LookupPrefetcher>& stage() const { return stage_; }

 private:
  std::shared_ptr<LookupPrefetcher> stage_;
};

// Holds the staged records of lower tiers; and, if a step may use rows that have missed updates,
// the outputs of the lookup.
class PrefetchedRows : public StagedRows {
 public:
  // Stages the records of a lookup that are in lower tiers.
  Status PrefetchRecords(const std::vector<LookupRequest>& requests);
  // Does the lookup.
  //   requests       from PlanRows
  //   max_staleness  how many updates of a table its rows may have missed when they are used
  //   memory         from OutputMemory
  Status Read(std::vector<LookupRequest> requests, int64_t max_staleness, tf::Allocator* memory);

  bool has_outputs() const { return !outputs_.empty(); }
  const std::vector<tf::Tensor>& outputs() const { return outputs_; }
  // Returns how many updates the outputs have missed, the maximum of all tables. Returns -1 if they
  // must not be used: they have missed too many updates, or another change, such as new weights.
  //   requests  with the current versions and numbers of updates of the tables
  int64_t Staleness(const std::vector<LookupRequest>& requests) const;

 private:
  std::vector<StagedRecords::Hold> holds_;
  std::vector<tf::Tensor> outputs_;
  std::vector<uint32_t> num_updates_;  // of each table at the lookup
  std::vector<int64_t> versions_;      // of the tables
  int64_t max_staleness_ = 0;
};

// Takes the prepared rows of a lookup, and counts the result. Returns null if there are none, or if
// they must not be used any more. If they have outputs, sets the versions of the tables in
// `requests`.
//   area  of the lookup's first table
absl::Status TakePrefetchedRows(PrefetchBuffer* area, std::vector<LookupRequest>* requests,
                                std::unique_ptr<PrefetchedRows>* ready);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_STAGING_PREFETCHED_ROWS_H_
