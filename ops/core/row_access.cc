#include "ops/core/row_access.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "ops/core/bytes.h"
#include "ops/core/hash.h"
#include "ops/core/hash_index.h"
#include "ops/core/out_of_range.h"
#include "ops/core/wait_timer.h"

namespace keras_sparse {
namespace {

constexpr int64_t kIdsPerTask = 4096;
constexpr int64_t kNanosecondsPerId = 20;

// Each key once, in the order of its first occurrence: the stores see the same batch however the
// threads were timed.
std::vector<int64_t> Distinct(const std::vector<std::vector<int64_t>>& lists) {
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

}  // namespace

bool AnyOutOfRange(const EmbeddingTable& table, const int64_t* ids, int64_t n) {
  if (table.is_dynamic() || table.out_of_range_is_zero()) return false;
  const auto input_dim = static_cast<uint64_t>(table.input_dim());
  bool any = false;  // a negative id is huge without its sign
  for (int64_t i = 0; i < n; ++i) any |= static_cast<uint64_t>(ids[i]) >= input_dim;
  return any;
}

Status OutOfRangeError(const TableIds& list) {
  int64_t i = 0;
  while (!AnyOutOfRange(*list.table, list.ids + i, 1)) ++i;
  return OutOfRange(list.table->name(), list.table->input_dim(), i, list.ids[i]);
}

Status CheckIds(const std::vector<TableIds>& lists, Executor* executor) {
  std::vector<TableIds> pieces;
  for (const TableIds& list : lists) {
    for (int64_t begin = 0; begin < list.num_ids; begin += kIdsPerTask) {
      pieces.push_back({list.table, list.ids + begin, std::min(kIdsPerTask, list.num_ids - begin)});
    }
  }
  std::atomic<bool> any_refused{false};
  executor->ParallelFor(static_cast<int64_t>(pieces.size()), kIdsPerTask,
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i) {
                            const TableIds& piece = pieces[static_cast<size_t>(i)];
                            if (AnyOutOfRange(*piece.table, piece.ids, piece.num_ids)) {
                              any_refused.store(true, std::memory_order_relaxed);
                            }
                          }
                        });
  if (!any_refused) return Status::Ok();
  const auto refused = std::find_if(lists.begin(), lists.end(), [](const TableIds& list) {
    return AnyOutOfRange(*list.table, list.ids, list.num_ids);
  });
  return OutOfRangeError(*refused);
}

Status FetchedRecords::Fetch(const std::vector<TableIds>& lists, Executor* executor,
                             std::vector<FetchedRecords>* fetched) {
  fetched->clear();
  fetched->resize(lists.size());
  for (size_t l = 0; l < lists.size(); ++l) {
    const EmbeddingTable& table = *lists[l].table;
    // The usual case while all rows fit the first tier: then nothing is below, and no id need be
    // looked up for it.
    if (!table.HasRowsBelow()) continue;
    const int64_t num_ids = lists[l].num_ids;
    const int64_t num_tasks = (num_ids + kIdsPerTask - 1) / kIdsPerTask;
    std::vector<std::vector<int64_t>> missing(static_cast<size_t>(num_tasks));
    executor->ParallelFor(
        num_tasks, kIdsPerTask * kNanosecondsPerId, [&](int64_t first, int64_t last) {
          for (int64_t task = first; task < last; ++task) {
            const int64_t begin = task * kIdsPerTask;
            AppendMissing(table, lists[l].ids + begin, std::min(kIdsPerTask, num_ids - begin),
                          &missing[static_cast<size_t>(task)]);
          }
        });
    KERAS_SPARSE_RETURN_IF_ERROR((*fetched)[l].FetchMissing(table, Distinct(missing)));
  }
  return Status::Ok();
}

void FetchedRecords::AppendMissing(const EmbeddingTable& table, const int64_t* ids, int64_t n,
                                   std::vector<int64_t>* missing) {
  const auto prefetch = [&](int64_t begin) {
    table.first_tier_->PrefetchIndex(ids + begin, std::min(kBlockRows, n - begin));
  };
  std::array<float*, kBlockRows> records;
  prefetch(0);
  for (int64_t begin = 0; begin < n; begin += kBlockRows) {
    const int64_t end = std::min(n, begin + kBlockRows);
    prefetch(end);
    table.first_tier_->Find(ids + begin, end - begin, records.data());
    for (int64_t i = begin; i < end; ++i) {
      if (records[static_cast<size_t>(i - begin)] == nullptr) missing->push_back(ids[i]);
    }
  }
}

Status FetchedRecords::FetchMissing(const EmbeddingTable& table, const std::vector<int64_t>& keys) {
  batches_ = table.staged_.batches();
  std::vector<int64_t> missing;
  for (const int64_t key : keys) (Find(key) == nullptr ? missing : keys_).push_back(key);
  const WaitTimer timer(&table.waited_ns_);
  const int64_t record_bytes = table.rule_->schema().record_bytes();
  std::unique_ptr<char[]> records;
  KERAS_SPARSE_RETURN_IF_ERROR(
      AllocateBytes(static_cast<int64_t>(missing.size()) * record_bytes, &records));
  auto read = std::make_shared<RecordBatch>(record_bytes, missing.size(), std::move(records));
  std::vector<char*> to;
  for (size_t i = 0; i < missing.size(); ++i) to.push_back(read->Place(i));
  const auto found = std::make_unique<bool[]>(missing.size());
  std::vector<int64_t> places(missing.size());  // of keys that are still missing
  std::iota(places.begin(), places.end(), 0);
  for (const auto& store : table.lower_tiers_) {
    KERAS_SPARSE_RETURN_IF_ERROR(store->GetPlaces(places, missing.data(), to.data(), found.get()));
    std::vector<int64_t> still_missing;
    for (const int64_t place : places) {
      const int64_t key = missing[static_cast<size_t>(place)];
      if (!found[place]) {
        still_missing.push_back(place);
      } else {
        read->Add(key, static_cast<size_t>(place));
        keys_.push_back(key);
      }
    }
    places = std::move(still_missing);
  }
  if (read->size() == 0) return Status::Ok();
  // Many keys may be new: what is kept of the others takes the memory that it needs.
  if (2 * read->size() < static_cast<int64_t>(missing.size())) {
    KERAS_SPARSE_RETURN_IF_ERROR(read->Fit(&read));
  }
  read_ = read;
  batches_.push_back(read);
  return Status::Ok();
}

const float* FetchedRecords::Find(int64_t key) const {
  for (const auto& batch : batches_) {
    const float* record = batch->Find(key);
    if (record != nullptr) return record;
  }
  return nullptr;
}

void FetchedRecords::Stage(const EmbeddingTable& table) const {
  if (read_ != nullptr) table.staged_.Add(read_);
}

Status FetchedRecords::EraseBelow(EmbeddingTable* table) const {
  if (keys_.empty()) return Status::Ok();
  return table->EraseBelow(keys_.data(), static_cast<int64_t>(keys_.size()));
}

RowReader::RowReader(const EmbeddingTable& table, const FetchedRecords& fetched)
    : table_(table),
      fetched_(fetched),
      default_rows_(table.default_rows_ == nullptr ? *table.initializer_ : *table.default_rows_),
      moves_rows_(table.rule_->moves_rows()),
      prefetch_bytes_(moves_rows_ ? table.rule_->schema().record_bytes() : 4 * table.dim()) {}

void RowReader::PrefetchIndex(const int64_t* ids, int64_t n) const {
  table_.first_tier_->PrefetchIndex(ids, n);
}

void RowReader::Find(const int64_t* ids, int64_t n, float** records) const {
  table_.first_tier_->Find(ids, n, records);
}

const float* const* RowReader::ResolveEach(const int64_t* ids, int64_t n, float* const* records,
                                           int half, ReadCounts* counts) {
  const int64_t dim = table_.dim();
  const float** rows = rows_[static_cast<size_t>(half)].data();
  for (int64_t i = 0; i < n; ++i) {
    const float* record = records[i];
    if (record != nullptr) {
      ++counts->hits;
      if (!moves_rows_ || table_.rule_->IsCurrent(record)) {
        rows[i] = record;
        continue;
      }
    } else if (!fetched_.empty()) {
      record = fetched_.Find(ids[i]);
      if (record != nullptr) ++counts->lower_hits;
    }
    // Most readers never get here, so the memory is taken when it is first needed.
    if (made_.empty()) made_.resize(static_cast<size_t>(2 * kBlockRows * dim));
    float* made = made_.data() + (half * kBlockRows + i) * dim;
    rows[i] = made;
    if (record != nullptr) {
      table_.rule_->Read(record, made);
    } else if (table_.first_tier_->Accepts(ids[i])) {
      default_rows_.Fill(ids[i], dim, made);
    } else {
      ++counts->out_of_range;
      std::fill_n(made, dim, 0.0f);
    }
  }
  return rows;
}

void AddToStats(const EmbeddingTable& table, int64_t lookups, const ReadCounts& counts) {
  table.lookups_.fetch_add(lookups, std::memory_order_relaxed);
  table.hits_.fetch_add(counts.hits + counts.lower_hits, std::memory_order_relaxed);
  if (counts.lower_hits > 0) {
    table.lower_hits_.fetch_add(counts.lower_hits, std::memory_order_relaxed);
  }
  if (counts.out_of_range > 0) {
    table.out_of_range_ids_.fetch_add(counts.out_of_range, std::memory_order_relaxed);
  }
}

RowWriter::RowWriter(EmbeddingTable* table, const FetchedRecords& fetched)
    : table_(table),
      fetched_(fetched),
      lazy_(table->rule_->lazy()),
      record_bytes_(table->rule_->schema().record_bytes()) {}

void RowWriter::PrefetchIndex(const int64_t* ids, int64_t n) const {
  table_->first_tier_->PrefetchIndex(ids, n);
}

bool RowWriter::may_skip() const {
  return table_->out_of_range_is_zero() || table_->filter_ != nullptr;
}

void RowWriter::FindSkipped(const int64_t* ids, int64_t n, char* skipped) {
  AdmissionFilter* filter = table_->filter_.get();
  if (filter == nullptr) {
    for (int64_t i = 0; i < n; ++i) skipped[i] = table_->first_tier_->Accepts(ids[i]) ? 0 : 1;
    return;
  }
  PrefetchIndex(ids, std::min(kBlockRows, n));
  for (int64_t begin = 0; begin < n; begin += kBlockRows) {
    const int64_t end = std::min(n, begin + kBlockRows);
    PrefetchIndex(ids + end, std::min(kBlockRows, n - end));
    std::array<float*, kBlockRows> records;
    table_->first_tier_->Find(ids + begin, end - begin, records.data());
    for (int64_t i = begin; i < end; ++i) {
      const bool has_row = records[static_cast<size_t>(i - begin)] != nullptr ||
                           (!fetched_.empty() && fetched_.Find(ids[i]) != nullptr);
      skipped[i] = has_row ? 0 : 1;
      if (!has_row) filter->Prefetch(ids[i]);
    }
    for (int64_t i = begin; i < end; ++i) {
      if (skipped[i] != 0 && filter->Admit(ids[i])) skipped[i] = 0;
      num_filtered_ += skipped[i];
    }
  }
}

Status RowWriter::Locate(const int64_t* ids, int64_t n, float** records, bool* created) {
  return table_->first_tier_->FindOrCreate(ids, n, records, created);
}

void RowWriter::Prepare(const int64_t* ids, int64_t n, float* const* records, const bool* created) {
  const UpdateRule& rule = *table_->rule_;
  for (int64_t i = 0; i < n; ++i) {
    if (created[i]) {
      const float* fetched = fetched_.empty() ? nullptr : fetched_.Find(ids[i]);
      if (fetched != nullptr) {
        std::copy_n(reinterpret_cast<const char*>(fetched), rule.schema().record_bytes(),
                    reinterpret_cast<char*>(records[i]));
      } else {
        table_->initializer_->Fill(ids[i], table_->dim(), records[i]);
        rule.schema().InitializeSlots(records[i], rule.step());
        if (table_->filter_ != nullptr) table_->filter_->Forget(ids[i]);
        ++num_created_;
      }
    }
    if (lazy_) rule.CatchUp(records[i]);
  }
}

}  // namespace keras_sparse
