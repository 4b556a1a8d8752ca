#include "ops/core/operations/check_ids.h"

#include <algorithm>
#include <atomic>

namespace keras_sparse {
namespace {

constexpr int64_t kIdsPerCheck = 4096;

// Returns whether the table rejects any of these ids.
bool AnyRefused(const TableOptions& options, const int64_t* ids, int64_t n) {
  const OwnedKeys owned = options.owned_keys();
  if (owned.are_all() || options.outside_is_zero()) return false;
  if (options.is_dynamic()) {
    return !std::all_of(ids, ids + n, [owned](int64_t key) { return owned.Hold(key); });
  }
  // The sign bit of an id, or of its distance to the last row. AVX2 has no unsigned comparison.
  const auto last = static_cast<uint64_t>(options.input_dim) - 1;
  uint64_t signs = 0;
  for (int64_t i = 0; i < n; ++i) {
    const auto id = static_cast<uint64_t>(ids[i]);
    signs |= id | (last - id);
  }
  return signs >> 63 != 0;
}

bool AnyRefused(const TableIds& list) {
  return AnyRefused(list.state->options, list.ids, list.num_ids);
}

// REQUIRES: the list has a rejected id
Status RefusedIdError(const TableIds& list) {
  const TableOptions& options = list.state->options;
  int64_t i = 0;
  while (!AnyRefused(options, list.ids + i, 1)) ++i;
  return options.owned_keys().Refuse(options.name, "ids", i, list.ids[i]);
}

}  // namespace

Status CheckIds(const std::vector<TableIds>& lists, Executor* executor) {
  std::vector<TableIds> pieces;
  for (const TableIds& list : lists) {
    for (int64_t begin = 0; begin < list.num_ids; begin += kIdsPerCheck) {
      pieces.push_back(
          {list.state, list.ids + begin, std::min(kIdsPerCheck, list.num_ids - begin)});
    }
  }
  std::atomic<bool> any_refused{false};
  executor->ParallelFor(static_cast<int64_t>(pieces.size()), kIdsPerCheck,
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i) {
                            if (AnyRefused(pieces[static_cast<size_t>(i)])) {
                              any_refused.store(true, std::memory_order_relaxed);
                            }
                          }
                        });
  if (!any_refused) return Status::Ok();
  // Finds the first list again, whichever thread found an error first.
  const auto refused = std::find_if(lists.begin(), lists.end(),
                                    [](const TableIds& list) { return AnyRefused(list); });
  return RefusedIdError(*refused);
}

}  // namespace keras_sparse
