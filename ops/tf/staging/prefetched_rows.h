// What a LookupPrefetcher makes ready for the op KerasSparseLookup.
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

// A stage as TensorFlow holds it: it stops with the last handle to it.
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

// Of the records below the first tier, that they are staged; and, where a step may use rows that
// have missed updates, the output of the lookup.
class PrefetchedRows : public StagedRows {
 public:
  // Stages the records of a lookup that are in lower tiers.
  Status PrefetchRecords(const std::vector<LookupRequest>& requests);
  // Does the lookup.
  //   requests       of PlanRows
  //   max_staleness  how many updates of a table its rows may have missed when they are used
  //   memory         of OutputMemory
  Status Read(std::vector<LookupRequest> requests, int64_t max_staleness, tf::Allocator* memory);

  bool has_outputs() const { return !outputs_.empty(); }
  const std::vector<tf::Tensor>& outputs() const { return outputs_; }
  // Updates that the outputs have missed, the most of any table. -1 if they must not be used: they
  // have missed too many, or a change that is no update, as by new weights.
  //   requests  with the tables' versions and numbers of updates as they are now
  int64_t Staleness(const std::vector<LookupRequest>& requests) const;

 private:
  std::vector<StagedRecords::Hold> holds_;
  std::vector<tf::Tensor> outputs_;
  std::vector<uint32_t> num_updates_;  // that each table had had
  std::vector<int64_t> versions_;      // of the tables
  int64_t max_staleness_ = 0;
};

// Takes what was made ready for a lookup, and counts what became of it. Null if nothing was, or its
// rows must not be used any more. If it has outputs the requests have the tables' versions.
//   area  of the lookup's first table
absl::Status TakePrefetchedRows(PrefetchBuffer* area, std::vector<LookupRequest>* requests,
                                std::unique_ptr<PrefetchedRows>* ready);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_STAGING_PREFETCHED_ROWS_H_
