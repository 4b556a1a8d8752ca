#include "ops/core/operations/apply.h"

#include <algorithm>
#include <array>

#include "ops/core/base/mutex.h"
#include "ops/core/gradients/gradient_source.h"
#include "ops/core/gradients/joined_gradient.h"
#include "ops/core/gradients/partition_gradients.h"
#include "ops/core/ids/id_partition.h"
#include "ops/core/operations/apply_steps.h"
#include "ops/core/operations/check_ids.h"
#include "ops/core/operations/check_room.h"
#include "ops/core/operations/device_operations.h"
#include "ops/core/operations/evict_rows.h"
#include "ops/core/operations/fetched_records.h"
#include "ops/core/operations/row_writer.h"
#include "ops/core/table/table_locks.h"

namespace keras_sparse {
namespace {

constexpr int64_t kNanosecondsPerUpdate = 250000;

// One step of an op's tables.
class GradientApplier {
 public:
  //   locks, gradients  of the requests, in their order
  GradientApplier(const std::vector<ApplyRequest>& requests, const WriteLocks& locks,
                  const std::vector<OutputGradient>& gradients, Executor* executor)
      : requests_(requests),
        locks_(locks),
        gradients_(gradients),
        sources_(GradientSource::Make(gradients, executor)),
        executor_(executor) {}

  Status Run();

 private:
  struct Part {
    size_t request;
    int64_t index;
    int64_t cost;  // in proportion to its time; only compared
  };
  class PartitionUpdate;

  // Evicts rows to make room for the rows that the step creates. If a table lacks room, no table is
  // changed.
  Status MakeRoom() const;
  Status UpdateRows(const std::vector<FetchedRecords>& fetched) const;

  const std::vector<ApplyRequest>& requests_;
  const WriteLocks& locks_;
  const std::vector<OutputGradient>& gradients_;
  const std::vector<GradientSource> sources_;
  Executor* executor_;
};

// A block of distinct ids that passes through Locate, Prepare and Update.
struct Block {
  int64_t size = 0;
  std::array<int64_t, kBlockRows> uniques;  // their numbers in the groups
  std::array<int64_t, kBlockRows> ids;
  std::array<float*, kBlockRows> records;
  std::array<bool, kBlockRows> created;
};

// Memory that a thread reuses for all parts and steps.
struct Scratch {
  PartitionGradients gradients;
  std::vector<char> skipped;  // one per distinct id
};

// Updates the distinct ids of one part; a thread runs one part at a time. Blocks are pipelined: the
// next block is located while the current one is updated, and rows are prefetched ahead of their
// update, across the end of their block.
class GradientApplier::PartitionUpdate {
 public:
  PartitionUpdate(TableState* state, const GradientSource& source, const FetchedRecords& fetched,
                  const IdPartition& partition, int64_t part)
      : state_(state), scratch_(OfThread()), writer_(state, fetched), rounding_(state->rounding()) {
    const TableOptions& options = state->options;
    const bool is_range = !options.is_dynamic() && !options.out_of_range_is_zero;
    gradients_.Find(source, partition.ids(part), partition.positions(part), partition.num_ids(part),
                    is_range ? options.input_dim : 0, partition.num_parts() == 1);
  }

  Status Run();

 private:
  static Scratch& OfThread() {
    static thread_local Scratch scratch;
    return scratch;
  }

  void FindSkipped();
  void PrefetchIndex() const {
    writer_.PrefetchIndex(gradients_.unique_ids() + next_,
                          std::min(kBlockRows, gradients_.num_unique() - next_));
  }
  // Takes the next ids. If it fails, the block is empty.
  Status Locate(Block* block);
  // Both process rows [begin, end) of a block, cut to the block's size.
  void Prefetch(const Block& block, int64_t begin, int64_t end) const;
  void Update(const Block& block, int64_t begin, int64_t end);

  TableState* const state_;
  Scratch& scratch_;  // a reference, because access to a thread_local costs a call
  PartitionGradients& gradients_ = scratch_.gradients;
  RowWriter writer_;
  const Rounding rounding_;
  bool skips_ = false;
  int64_t next_ = 0;  // the first distinct id not located yet
};

Status GradientApplier::PartitionUpdate::Run() {
  FindSkipped();
  const int64_t step = writer_.rows_at_once();
  const int64_t ahead = writer_.rows_ahead();
  std::array<Block, 2> blocks;
  PrefetchIndex();
  KERAS_SPARSE_RETURN_IF_ERROR(Locate(&blocks[0]));
  Prefetch(blocks[0], 0, ahead);
  Status status;
  for (size_t current = 0; blocks[current].size > 0 && status.ok(); current = 1 - current) {
    status = Locate(&blocks[1 - current]);
    for (int64_t begin = 0; begin < kBlockRows; begin += step) {
      const int64_t end = std::min(begin + step, kBlockRows);
      Prefetch(blocks[current], begin + ahead, end + ahead);
      Prefetch(blocks[1 - current], std::max(begin + ahead - kBlockRows, int64_t{0}),
               end + ahead - kBlockRows);
      Update(blocks[current], begin, end);
    }
  }
  state_->counters.created_rows.fetch_add(writer_.num_created(), std::memory_order_relaxed);
  return status;
}

void GradientApplier::PartitionUpdate::FindSkipped() {
  skips_ = writer_.may_skip();
  if (!skips_) return;
  const int64_t num_unique = gradients_.num_unique();
  scratch_.skipped.resize(static_cast<size_t>(num_unique));
  const uint32_t* occurrences =
      state_->gate.counts_occurrences() ? gradients_.CountOccurrences() : nullptr;
  writer_.FindSkipped(gradients_.unique_ids(), occurrences, num_unique, scratch_.skipped.data());
  state_->counters.filtered_ids.fetch_add(writer_.num_filtered(), std::memory_order_relaxed);
}

Status GradientApplier::PartitionUpdate::Locate(Block* block) {
  block->size = 0;
  int64_t size = 0;
  const int64_t num_unique = gradients_.num_unique();
  for (; next_ < num_unique && size < kBlockRows; ++next_) {
    if (skips_ && scratch_.skipped[static_cast<size_t>(next_)] != 0) continue;
    block->uniques[static_cast<size_t>(size)] = next_;
    block->ids[static_cast<size_t>(size)] = gradients_.unique_ids()[next_];
    ++size;
  }
  PrefetchIndex();
  KERAS_SPARSE_RETURN_IF_ERROR(
      writer_.Locate(block->ids.data(), size, block->records.data(), block->created.data()));
  block->size = size;
  return Status::Ok();
}

void GradientApplier::PartitionUpdate::Prefetch(const Block& block, int64_t begin,
                                                int64_t end) const {
  end = std::min(end, block.size);
  if (begin >= end) return;
  writer_.PrefetchRecords(block.records.data() + begin, end - begin);
  for (int64_t i = begin; i < end; ++i) {
    gradients_.Prefetch(block.uniques[static_cast<size_t>(i)]);
  }
}

void GradientApplier::PartitionUpdate::Update(const Block& block, int64_t begin, int64_t end) {
  end = std::min(end, block.size);
  if (begin >= end) return;
  std::array<const float*, kBlockRows> grads;
  const int64_t* ids = block.ids.data() + begin;
  float* const* records = block.records.data() + begin;
  writer_.Prepare(ids, end - begin, records, block.created.data() + begin);
  gradients_.Get(block.uniques.data() + begin, end - begin, grads.data());
  if (state_->layout().is_packed()) {
    state_->rule().UpdatePacked(rounding_, ids, records, grads.data(), end - begin);
  } else {
    state_->rule().Update(records, grads.data(), end - begin);
  }
  const RecordLayout& layout = state_->layout();
  if (layout.num_kept_words() == 0) return;
  const uint32_t clock = state_->rule_state.clock();
  for (int64_t i = begin; i < end; ++i) {
    layout.CountGradient(block.records[static_cast<size_t>(i)], clock);
  }
}

Status GradientApplier::MakeRoom() const {
  std::vector<EvictionCandidates> leaving(requests_.size());
  for (size_t r = 0; r < requests_.size(); ++r) {
    const OutputGradient& gradient = gradients_[r];
    KERAS_SPARSE_RETURN_IF_ERROR(
        FindRoom(&locks_[r], gradient.ids, gradient.bags.num_ids, executor_, &leaving[r]));
  }
  for (size_t r = 0; r < requests_.size(); ++r) {
    KERAS_SPARSE_RETURN_IF_ERROR(EvictCandidates(leaving[r], &locks_[r], executor_));
  }
  return Status::Ok();
}

Status GradientApplier::Run() {
  KERAS_SPARSE_RETURN_IF_ERROR(CheckSteps(requests_, locks_));
  std::vector<TableIds> table_ids;
  for (size_t r = 0; r < requests_.size(); ++r) {
    const OutputGradient& gradient = gradients_[r];
    table_ids.push_back({&locks_[r], gradient.ids, gradient.bags.num_ids});
  }
  KERAS_SPARSE_RETURN_IF_ERROR(CheckIds(table_ids, executor_));
  KERAS_SPARSE_RETURN_IF_ERROR(BeginChanges(requests_, locks_, executor_));
  const std::vector<int64_t> versions = VersionsOf(requests_, locks_);
  KERAS_SPARSE_RETURN_IF_ERROR(MakeRoom());
  std::vector<FetchedRecords> fetched;
  KERAS_SPARSE_RETURN_IF_ERROR(FetchedRecords::Fetch(table_ids, executor_, &fetched));

  BeginSteps(requests_, locks_, versions);
  const Status updated = UpdateRows(fetched);
  FinishSteps(requests_, locks_, executor_);
  Status status = updated;
  for (size_t r = 0; r < requests_.size(); ++r) {
    const Status erased = fetched[r].EraseCold(&locks_[r].tiers);
    if (status.ok()) status = erased;
    locks_[r].FinishChange(executor_);
  }
  return status;
}

Status GradientApplier::UpdateRows(const std::vector<FetchedRecords>& fetched) const {
  std::vector<IdList> lists;
  lists.reserve(requests_.size());
  for (size_t r = 0; r < requests_.size(); ++r) {
    lists.push_back({gradients_[r].ids, gradients_[r].bags.num_ids, locks_[r].max_partition_bits(),
                     sources_[r].names()});
  }
  const std::vector<IdPartition> partitions = PartitionIds(lists, executor_);
  std::vector<Part> parts;
  for (size_t r = 0; r < requests_.size(); ++r) {
    const int64_t dim = locks_[r].options.output_dim;
    for (int64_t p = 0; p < partitions[r].num_parts(); ++p) {
      parts.push_back({r, p, partitions[r].num_ids(p) * dim});
    }
  }
  // Large parts first, so that threads finish together on small ones.
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& a, const Part& b) { return a.cost > b.cost; });
  Mutex mutex;
  Status status;
  executor_->ParallelFor(
      static_cast<int64_t>(parts.size()), kNanosecondsPerUpdate, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const Part& part = parts[static_cast<size_t>(i)];
          const Status updated =
              PartitionUpdate(&locks_[part.request], sources_[part.request], fetched[part.request],
                              partitions[part.request], part.index)
                  .Run();
          if (updated.ok()) continue;
          const MutexLock lock(mutex);
          status = updated;
        }
      });
  return status;
}

}  // namespace

Status ApplyGradients(const std::vector<ApplyRequest>& requests, Executor* executor) {
  if (AreOnDevice(requests)) return DeviceOperations::Get().apply_gradients(requests, executor);
  std::vector<JoinedGradient> joined;
  std::vector<OutputGradient> gradients;
  for (const ApplyRequest& request : requests) {
    KERAS_SPARSE_RETURN_IF_ERROR(CheckGradients(request));
    for (const OutputGradient& each : request.gradients) {
      KERAS_SPARSE_RETURN_IF_ERROR(each.bags.Check());
    }
    joined.emplace_back(request.gradients);
    gradients.push_back(joined.back().gradient());
    KERAS_SPARSE_RETURN_IF_ERROR(gradients.back().bags.CheckSizes());
  }
  const WriteLocks locks(TablesOf(requests));
  return GradientApplier(requests, locks, gradients, executor).Run();
}

}  // namespace keras_sparse
