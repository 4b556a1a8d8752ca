#include "ops/core/apply.h"

#include <algorithm>
#include <array>
#include <mutex>

#include "ops/core/gradient_source.h"
#include "ops/core/id_partition.h"
#include "ops/core/part_gradients.h"
#include "ops/core/row_access.h"

namespace keras_sparse {

// Has the tables' locks and their friendship.
class GradientApplier {
 public:
  GradientApplier(const std::vector<ApplyRequest>& requests,
                  const std::vector<GradientSource>& sources, Executor* executor)
      : requests_(requests), sources_(sources), executor_(executor) {}

  Status Run();

 private:
  struct Part {
    size_t request;
    int64_t index;
    int64_t cost;  // grows with its time; only compared
  };

  Status Check() const;
  // For the rows that the step makes. All tables have room for theirs, or none is changed.
  Status MakeRoom(const std::vector<TableIds>& lists) const;
  Status UpdateRows(const std::vector<FetchedRecords>& fetched) const;
  Status UpdatePart(EmbeddingTable* table, const GradientSource& source,
                    const FetchedRecords& fetched, const IdPartition& partition,
                    int64_t part) const;

  const std::vector<ApplyRequest>& requests_;
  const std::vector<GradientSource>& sources_;  // of the requests
  Executor* executor_;
};

namespace {

constexpr int64_t kNanosecondsPerPart = 250000;
constexpr int64_t kNanosecondsPerFinish = 10000;

// One block of distinct ids on its way through Locate, Prepare and Update.
struct Block {
  int64_t size = 0;
  std::array<int64_t, kBlockRows> uniques;  // their numbers in the groups
  std::array<int64_t, kBlockRows> ids;
  std::array<float*, kBlockRows> records;
  std::array<bool, kBlockRows> created;
};

// Memory that a thread keeps from part to part and from step to step.
struct Scratch {
  PartGradients gradients;
  std::vector<char> skipped;  // of the distinct ids
};

}  // namespace

Status GradientApplier::Check() const {
  for (const ApplyRequest& request : requests_) {
    const UpdateRule& rule = *request.table->rule_;
    if (request.table->rule_generation_ == 0) {
      return FailedPrecondition("table '" + request.table->name() +
                                "' must be given an update rule before it is updated: build an "
                                "optimizer of keras_sparse on it");
    }
    if (request.rule_generation != request.table->rule_generation_) {
      return FailedPrecondition("table '" + request.table->name() +
                                "' must keep the slots of the optimizer that updates it, but "
                                "another one was built on it since and gave it slots of its own. "
                                "Use that one, or make a new optimizer. Received: an update for an "
                                "earlier layout than that of rule '" +
                                rule.name() + "'");
    }
    const Status numbers = rule.CheckNumbers(request.numbers);
    if (!numbers.ok()) {
      return Status(numbers.code(), "table '" + request.table->name() + "': " + numbers.message());
    }
  }
  return Status::Ok();
}

Status GradientApplier::UpdatePart(EmbeddingTable* table, const GradientSource& source,
                                   const FetchedRecords& fetched, const IdPartition& partition,
                                   int64_t part) const {
  static thread_local Scratch kept;
  Scratch& scratch = kept;  // found once: a thread's variable is a call away
  PartGradients& gradients = scratch.gradients;
  const bool is_range = !table->is_dynamic() && !table->out_of_range_is_zero();
  gradients.Find(source, partition.ids(part), partition.positions(part), partition.num_ids(part),
                 is_range ? table->input_dim() : 0, partition.num_parts() == 1);
  const int64_t num_unique = gradients.num_unique();
  const int64_t* unique_ids = gradients.unique_ids();
  RowWriter writer(table, fetched);
  const bool skips = writer.may_skip();
  if (skips) {
    scratch.skipped.resize(static_cast<size_t>(num_unique));
    writer.FindSkipped(unique_ids, num_unique, scratch.skipped.data());
    table->filtered_ids_.fetch_add(writer.num_filtered(), std::memory_order_relaxed);
  }

  int64_t next = 0;
  const auto locate = [&](Block* block) {
    block->size = 0;
    for (; next < num_unique && block->size < kBlockRows; ++next) {
      const int64_t id = unique_ids[next];
      if (skips && scratch.skipped[static_cast<size_t>(next)] != 0) continue;
      block->uniques[static_cast<size_t>(block->size)] = next;
      block->ids[static_cast<size_t>(block->size)] = id;
      ++block->size;
    }
    writer.PrefetchIndex(unique_ids + next, std::min(kBlockRows, num_unique - next));
    return writer.Locate(block->ids.data(), block->size, block->records.data(),
                         block->created.data());
  };
  // Both do rows [begin, end) of a block, or those of them that it has.
  const auto prefetch = [&](const Block& block, int64_t begin, int64_t end) {
    end = std::min(end, block.size);
    if (begin >= end) return;
    writer.PrefetchRecords(block.records.data() + begin, end - begin);
    for (int64_t i = begin; i < end; ++i) {
      gradients.Prefetch(block.uniques[static_cast<size_t>(i)]);
    }
  };
  const auto update = [&](const Block& block, int64_t begin, int64_t end) {
    end = std::min(end, block.size);
    if (begin >= end) return;
    std::array<const float*, kBlockRows> grads;
    float* const* records = block.records.data() + begin;
    writer.Prepare(block.ids.data() + begin, end - begin, records, block.created.data() + begin);
    gradients.Get(block.uniques.data() + begin, end - begin, grads.data());
    table->rule_->Update(records, grads.data(), end - begin);
    if (!table->options_.keeps_gradient_step) return;
    for (int64_t i = begin; i < end; ++i) {
      table->rule_->schema().SetGradientStep(block.records[static_cast<size_t>(i)],
                                             table->num_steps_);
    }
  };

  const int64_t step = writer.rows_at_once();
  const int64_t ahead = writer.rows_ahead();
  // One block is located ahead of the one that is updated, and rows are asked for ahead of their
  // update, across the end of their block.
  std::array<Block, 2> blocks;
  writer.PrefetchIndex(unique_ids, std::min(kBlockRows, num_unique));
  KERAS_SPARSE_RETURN_IF_ERROR(locate(&blocks[0]));
  prefetch(blocks[0], 0, ahead);
  Status status;
  for (size_t current = 0; blocks[current].size > 0 && status.ok(); current = 1 - current) {
    status = locate(&blocks[1 - current]);
    if (!status.ok()) blocks[1 - current].size = 0;
    for (int64_t begin = 0; begin < kBlockRows; begin += step) {
      const int64_t end = std::min(begin + step, kBlockRows);
      prefetch(blocks[current], begin + ahead, end + ahead);
      prefetch(blocks[1 - current], std::max(begin + ahead - kBlockRows, int64_t{0}),
               end + ahead - kBlockRows);
      update(blocks[current], begin, end);
    }
  }
  table->created_rows_.fetch_add(writer.num_created(), std::memory_order_relaxed);
  return status;
}

Status GradientApplier::MakeRoom(const std::vector<TableIds>& lists) const {
  std::vector<LeavingRows> leaving(lists.size());
  for (size_t i = 0; i < lists.size(); ++i) {
    const TableIds& list = lists[i];
    KERAS_SPARSE_RETURN_IF_ERROR(
        list.table->FindRoom(list.ids, list.num_ids, executor_, &leaving[i]));
  }
  for (size_t i = 0; i < lists.size(); ++i) {
    KERAS_SPARSE_RETURN_IF_ERROR(lists[i].table->EvictRows(leaving[i], executor_));
  }
  return Status::Ok();
}

Status GradientApplier::Run() {
  KERAS_SPARSE_RETURN_IF_ERROR(Check());
  std::vector<TableIds> table_ids;
  for (const ApplyRequest& request : requests_) {
    table_ids.push_back({request.table, request.gradient.ids, request.gradient.bags.num_ids});
  }
  KERAS_SPARSE_RETURN_IF_ERROR(CheckIds(table_ids, executor_));
  for (const ApplyRequest& request : requests_) {
    request.table->is_restoring_ = false;
    KERAS_SPARSE_RETURN_IF_ERROR(request.table->BeginChange(executor_));
  }
  KERAS_SPARSE_RETURN_IF_ERROR(MakeRoom(table_ids));
  std::vector<FetchedRecords> fetched;
  KERAS_SPARSE_RETURN_IF_ERROR(FetchedRecords::Fetch(table_ids, executor_, &fetched));

  for (const ApplyRequest& request : requests_) {
    request.table->rule_->BeginStep(request.numbers);
    request.table->first_tier_->BeginUpdate();
    if (request.table->filter_ != nullptr) request.table->filter_->BeginStep();
    ++request.table->version_;
    ++request.table->num_steps_;
  }
  const Status updated = UpdateRows(fetched);
  executor_->ParallelFor(static_cast<int64_t>(requests_.size()), kNanosecondsPerFinish,
                         [&](int64_t begin, int64_t end) {
                           for (int64_t r = begin; r < end; ++r) {
                             requests_[static_cast<size_t>(r)].table->rule_->FinishStep();
                           }
                         });
  Status status = updated;
  for (size_t r = 0; r < requests_.size(); ++r) {
    const Status erased = fetched[r].EraseBelow(requests_[r].table);
    if (status.ok()) status = erased;
    requests_[r].table->FinishChange(executor_);
  }
  return status;
}

Status GradientApplier::UpdateRows(const std::vector<FetchedRecords>& fetched) const {
  std::vector<IdList> lists;
  for (size_t r = 0; r < requests_.size(); ++r) {
    const ApplyRequest& request = requests_[r];
    lists.push_back({request.gradient.ids, request.gradient.bags.num_ids,
                     request.table->max_part_bits(), sources_[r].names()});
  }
  const std::vector<IdPartition> partitions = PartitionIds(lists, executor_);
  std::vector<Part> parts;
  for (size_t r = 0; r < requests_.size(); ++r) {
    for (int64_t p = 0; p < partitions[r].num_parts(); ++p) {
      parts.push_back({r, p, partitions[r].num_ids(p) * requests_[r].table->dim()});
    }
  }
  // Large parts first: threads then end together, on small ones.
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& a, const Part& b) { return a.cost > b.cost; });
  std::mutex mutex;
  Status status;
  executor_->ParallelFor(
      static_cast<int64_t>(parts.size()), kNanosecondsPerPart, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const Part& part = parts[static_cast<size_t>(i)];
          const Status updated =
              UpdatePart(requests_[part.request].table, sources_[part.request],
                         fetched[part.request], partitions[part.request], part.index);
          if (updated.ok()) continue;
          std::lock_guard<std::mutex> lock(mutex);
          status = updated;
        }
      });
  return status;
}

Status ApplyGradients(const std::vector<ApplyRequest>& requests, Executor* executor) {
  std::vector<EmbeddingTable*> tables;
  std::vector<OutputGradient> gradients;
  for (const ApplyRequest& request : requests) {
    KERAS_SPARSE_RETURN_IF_ERROR(request.gradient.bags.Check());
    tables.push_back(request.table);
    gradients.push_back(request.gradient);
  }
  const TableLocks locks(tables, TableLocks::Mode::kExclusive);
  if (locks.has_repeats()) {
    return InvalidArgument(
        "a step must name each table once; merge the gradients of a table first");
  }
  const std::vector<GradientSource> sources = GradientSource::Make(gradients, executor);
  return GradientApplier(requests, sources, executor).Run();
}

}  // namespace keras_sparse
