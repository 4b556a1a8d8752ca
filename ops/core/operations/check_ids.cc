#include "ops/core/operations/check_ids.h"

#include <algorithm>
#include <atomic>

#include "ops/core/ids/out_of_range.h"

namespace keras_sparse {
namespace {

constexpr int64_t kIdsPerTask = 4096;

// Whether the table refuses any of these ids.
bool AnyOutOfRange(const TableOptions& options, const int64_t* ids, int64_t n) {
  if (options.is_dynamic() || options.out_of_range_is_zero) return false;
  // The sign of an id or of its distance to the last row. AVX2 has no unsigned comparison.
  const auto last = static_cast<uint64_t>(options.input_dim) - 1;
  uint64_t signs = 0;
  for (int64_t i = 0; i < n; ++i) {
    const auto id = static_cast<uint64_t>(ids[i]);
    signs |= id | (last - id);
  }
  return signs >> 63 != 0;
}

bool AnyOutOfRange(const TableIds& list) {
  return AnyOutOfRange(list.state->options, list.ids, list.num_ids);
}

// REQUIRES: there is one.
Status OutOfRangeError(const TableIds& list) {
  const TableOptions& options = list.state->options;
  int64_t i = 0;
  while (!AnyOutOfRange(options, list.ids + i, 1)) ++i;
  return OutOfRange(options.name, options.input_dim, i, list.ids[i]);
}

}  // namespace

Status CheckIds(const std::vector<TableIds>& lists, Executor* executor) {
  std::vector<TableIds> pieces;
  for (const TableIds& list : lists) {
    for (int64_t begin = 0; begin < list.num_ids; begin += kIdsPerTask) {
      pieces.push_back({list.state, list.ids + begin, std::min(kIdsPerTask, list.num_ids - begin)});
    }
  }
  std::atomic<bool> any_refused{false};
  executor->ParallelFor(static_cast<int64_t>(pieces.size()), kIdsPerTask,
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i) {
                            if (AnyOutOfRange(pieces[static_cast<size_t>(i)])) {
                              any_refused.store(true, std::memory_order_relaxed);
                            }
                          }
                        });
  if (!any_refused) return Status::Ok();
  // The first, whichever thread came first.
  const auto refused = std::find_if(lists.begin(), lists.end(),
                                    [](const TableIds& list) { return AnyOutOfRange(list); });
  return OutOfRangeError(*refused);
}

}  // namespace keras_sparse
