#include "ops/core/operations/check_room.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/base/hash.h"
#include "ops/core/index/hash_index.h"
#include "ops/core/index/key_counts.h"
#include "ops/core/operations/check_ids.h"
#include "ops/core/operations/device_operations.h"
#include "ops/core/stores/hbm/hbm_store.h"
#include "ops/core/table/eviction_candidates.h"
#include "ops/core/table/table_locks.h"

namespace keras_sparse {
namespace {

Status RowLimitError(const TableState& state, int64_t num_new, int64_t num_leaving) {
  const std::string leaving =
      state.limit.policy == nullptr
          ? ""
          : ", of which its eviction policy lets " + std::to_string(num_leaving) + " go,";
  return ResourceExhausted(
      "`max_rows` of table '" + state.options.name +
      "' must hold the rows of all its keys; give it more (`max_vocabulary_size_per_gpu` in SOK's "
      "layers), an `eviction` policy that lets enough go, or an `admission` filter. The update "
      "made and changed no row. Received: max_rows=" +
      std::to_string(state.limit.max_rows) + " where the table has " +
      std::to_string(state.tiers.num_rows()) + " rows" + leaving + " and " +
      std::to_string(num_new) + " keys are new");
}

// Returns the distinct keys.
HashIndex Distinct(const int64_t* keys, int64_t n) {
  HashIndex distinct(0, n);
  for (int64_t i = 0; i < n; ++i) {
    distinct.PrefetchAhead(keys, n, i);
    (void)distinct.Exchange(HashKey(keys[i]), keys[i], 0);
  }
  return distinct;
}

// Counts the rows that an update would add to the GPU: new keys that the filter admits, and rows of
// lower tiers.
int64_t CountComing(const TableState& state, const int64_t* ids, int64_t n, Executor* executor) {
  KeyCounts occurrences(0);
  for (int64_t i = 0; i < n; ++i) occurrences.Add(HashKey(ids[i]), 1);
  std::vector<int64_t> distinct(ids, ids + n);
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  const auto num_distinct = static_cast<int64_t>(distinct.size());
  const auto are_there = std::make_unique<bool[]>(distinct.size());
  state.tiers.hbm_store()->Contains(distinct.data(), num_distinct, are_there.get());
  int64_t num_coming = std::count(are_there.get(), are_there.get() + num_distinct, false);
  if (state.gate.filter() == nullptr) return num_coming;
  for (const int64_t key : state.tiers.KeysWithoutRow(ids, n, executor)) {
    const bool counts = state.gate.counts_occurrences();
    if (!state.gate.WouldAdmit(key, counts ? occurrences.Get(HashKey(key)) : 1)) --num_coming;
  }
  return num_coming;
}

//   num_leaving  number of rows that the update would evict
Status CheckRoomOf(TableState* state, const int64_t* ids, int64_t n, Executor* executor,
                   int64_t* num_leaving) {
  EvictionCandidates leaving;
  KERAS_SPARSE_RETURN_IF_ERROR(FindRoom(state, ids, n, executor, &leaving));
  *num_leaving = static_cast<int64_t>(leaving.keys.size());
  if (*num_leaving > 0) {
    state->limit.found = {state->version, {ids, ids + n}, std::move(leaving)};
  }
  return Status::Ok();
}

// Calls check(table, ids, n, executor) for each table with its ids in host memory, except tables on
// a GPU whose ids all have rows.
template <typename Check>
Status ForTablesWithNewIds(const std::vector<StepIds>& tables, Executor* executor,
                           const Check& check) {
  std::vector<std::vector<int64_t>> ids(tables.size());
  const bool are_on_device = AreOnDevice(tables);
  if (are_on_device) {
    KERAS_SPARSE_RETURN_IF_ERROR(DeviceOperations::Get().read_new_ids(tables, &ids));
  }
  for (size_t t = 0; t < tables.size(); ++t) {
    const std::vector<IdSpan>& lookups = tables[t].lookups;
    IdSpan all = {ids[t].data(), static_cast<int64_t>(ids[t].size())};
    if (are_on_device && all.n == 0) continue;
    if (!are_on_device && lookups.size() == 1) {
      all = lookups[0];
    } else if (!are_on_device) {
      for (const IdSpan& each : lookups) ids[t].insert(ids[t].end(), each.ids, each.ids + each.n);
      all = {ids[t].data(), static_cast<int64_t>(ids[t].size())};
    }
    KERAS_SPARSE_RETURN_IF_ERROR(check(tables[t].table, all.ids, all.n, executor));
  }
  return Status::Ok();
}

}  // namespace

Status SetRowLimit(EmbeddingTable* table, int64_t max_rows,
                   std::unique_ptr<EvictionPolicy> policy) {
  const TableOptions& options = table->options();
  if (!options.is_dynamic()) {
    return Status(StatusCode::kUnimplemented,
                  "`max_rows` must be that of a dynamic table: a static one has all its rows. Give "
                  "table '" +
                      options.name +
                      "' input_dim=None. Received: input_dim=" + std::to_string(options.input_dim));
  }
  if (max_rows < 1) {
    return InvalidArgument("`max_rows` of table '" + options.name +
                           "' must be at least 1. Received: max_rows=" + std::to_string(max_rows));
  }
  if (policy != nullptr) KERAS_SPARSE_RETURN_IF_ERROR(CheckEviction(options, *policy));
  const WriteLocks locks({table});
  const bool by_frequency = policy != nullptr && policy->needs_frequency();
  locks[0].limit = {max_rows, std::move(policy), EvictionQueue(by_frequency), {}};
  return Status::Ok();
}

int64_t NumLeavingGpu(const TableState& state, const EvictionCandidates& leaving) {
  if (leaving.keys.empty()) return 0;  // avoids asking the GPU
  const auto n = static_cast<int64_t>(leaving.keys.size());
  const auto are_there = std::make_unique<bool[]>(leaving.keys.size());
  state.tiers.hbm_store()->Contains(leaving.keys.data(), n, are_there.get());
  return std::count(are_there.get(), are_there.get() + n, true);
}

// Rows are evicted only after all tables of the update, and other ranks, are known to have room.
Status FindRoom(TableState* state, const int64_t* keys, int64_t n, Executor* executor,
                EvictionCandidates* leaving) {
  const int64_t max_rows = state->limit.max_rows;
  const int64_t num_rows = state->tiers.num_rows();
  EvictionQueue& queue = state->limit.queue;
  const bool has_room_for_all = n <= max_rows - num_rows;
  if (max_rows == INT64_MAX || (has_room_for_all && !queue.expects_keys(state->version))) {
    return Status::Ok();
  }
  if (FoundRoom found = std::exchange(state->limit.found, {});
      found.version == state->version &&
      std::equal(keys, keys + n, found.keys.begin(), found.keys.end())) {
    *leaving = std::move(found.leaving);
    return Status::Ok();
  }
  std::vector<int64_t> without = state->tiers.KeysWithoutRow(keys, n, executor);
  const auto num_without = static_cast<int64_t>(without.size());
  KERAS_SPARSE_RETURN_IF_ERROR(queue.Expect(*state, without));
  KeyCounts occurrences(0);
  if (state->gate.counts_occurrences()) {
    for (int64_t i = 0; i < n; ++i) occurrences.Add(HashKey(keys[i]), 1);
  }
  const auto waits = [&](int64_t key) {
    return !state->gate.WouldAdmit(key, std::max(occurrences.Get(HashKey(key)), 1u));
  };
  without.erase(std::remove_if(without.begin(), without.end(), waits), without.end());
  const auto num_new = static_cast<int64_t>(without.size());
  const auto has_room = [&] {
    const int64_t num_left = num_rows - static_cast<int64_t>(leaving->keys.size());
    return num_new == 0 || num_new <= max_rows - num_left;
  };
  if (has_room()) return Status::Ok();
  if (const EvictionPolicy* policy = state->limit.policy.get(); policy != nullptr) {
    // Rows that the step has looked up and will update stay.
    const HashIndex kept = Distinct(keys, n);
    const int64_t num_needed = kept.size() - (num_without - num_new);
    if (num_needed <= max_rows) {
      KERAS_SPARSE_RETURN_IF_ERROR(
          policy->makes_room() ? queue.Find(*state, num_rows + num_new - max_rows, kept, leaving)
                               : FindEvictionCandidates(*state, *policy, kept, executor, leaving));
    }
  }
  if (has_room()) return Status::Ok();
  return RowLimitError(*state, num_new, static_cast<int64_t>(leaving->keys.size()));
}

Status CheckRoom(EmbeddingTable* table, const int64_t* ids, int64_t n, Executor* executor) {
  const WriteLocks locks({table});
  int64_t num_leaving = 0;
  return CheckRoomOf(&locks[0], ids, n, executor, &num_leaving);
}

Status CheckUpdate(EmbeddingTable* table, const int64_t* ids, int64_t n, Executor* executor) {
  const WriteLocks locks({table});
  TableState& state = locks[0];
  int64_t num_leaving = 0;
  KERAS_SPARSE_RETURN_IF_ERROR(CheckIds({{&state, ids, n}}, executor));
  KERAS_SPARSE_RETURN_IF_ERROR(state.BeginChange(executor));
  KERAS_SPARSE_RETURN_IF_ERROR(CheckRoomOf(&state, ids, n, executor, &num_leaving));
  HbmStore* store = state.tiers.hbm_store();
  if (store == nullptr || store->is_static()) return Status::Ok();
  int64_t num_coming = CountComing(state, ids, n, executor);
  if (num_leaving > 0) num_coming -= NumLeavingGpu(state, state.limit.found.leaving);
  return num_coming > 0 ? store->Reserve(num_coming) : Status::Ok();
}

Status CheckRooms(const std::vector<StepIds>& tables, Executor* executor) {
  return ForTablesWithNewIds(tables, executor, CheckRoom);
}

Status CheckUpdates(const std::vector<StepIds>& tables, Executor* executor) {
  if (AreOnDevice(tables)) {  // of which some have no new ids
    for (const StepIds& each : tables) {
      const WriteLocks locks({each.table});
      KERAS_SPARSE_RETURN_IF_ERROR(locks[0].BeginChange(executor));
    }
  }
  return ForTablesWithNewIds(tables, executor, CheckUpdate);
}

}  // namespace keras_sparse
