#include "ops/core/lookup.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "ops/core/cache_size.h"
#include "ops/core/row_access.h"
#include "ops/core/vector_math.h"

namespace keras_sparse {
namespace {

constexpr int64_t kIdsPerRun = 512;
constexpr int64_t kNanosecondsPerId = 20;
// Some consecutive bags of one request.
struct Run {
  size_t request;
  int64_t first_bag;
  int64_t last_bag;
};

// Reads the rows of ids [begin, end) and calls use(first_id, n, rows) block by block. The next
// block is on its way from memory while one is in use.
template <typename Use>
ReadCounts ForEachBlock(const EmbeddingTable& table, const FetchedRecords& fetched,
                        const int64_t* ids, int64_t begin, int64_t end, const Use& use) {
  RowReader reader(table, fetched);
  ReadCounts counts;
  std::array<std::array<float*, kBlockRows>, 2> records;
  const auto size = [end](int64_t at) { return std::clamp<int64_t>(end - at, 0, kBlockRows); };
  reader.PrefetchIndex(ids + begin, size(begin));
  reader.PrefetchIndex(ids + begin + kBlockRows, size(begin + kBlockRows));
  float** block = records[0].data();
  float** next_block = records[1].data();
  reader.Find(ids + begin, size(begin), block);
  reader.PrefetchRecords(block, size(begin));
  const int64_t step = reader.rows_at_once();
  for (int64_t at = begin; at < end; at += kBlockRows) {
    const int64_t next = at + kBlockRows;
    reader.PrefetchIndex(ids + next + kBlockRows, size(next + kBlockRows));
    reader.Find(ids + next, size(next), next_block);
    for (int64_t i = 0; i < kBlockRows; i += step) {
      reader.PrefetchRecords(next_block + i, std::clamp<int64_t>(size(next) - i, 0, step));
      const int64_t n = std::clamp<int64_t>(size(at) - i, 0, step);
      if (n > 0) use(at + i, n, reader.Resolve(ids + at + i, n, block + i, &counts));
    }
    std::swap(block, next_block);
  }
  return counts;
}

// The ids of a run's bags are [first, second).
std::pair<int64_t, int64_t> IdsOfRun(const Bags& bags, const Run& run) {
  if (bags.combiner == Combiner::kNone) return {run.first_bag, run.last_bag};
  return {bags.row_splits[run.first_bag], bags.row_splits[run.last_bag]};
}

void CopyRun(const LookupRequest& request, const FetchedRecords& fetched, const Run& run,
             bool stream) {
  const int64_t dim = request.table->dim();
  const ReadCounts counts =
      ForEachBlock(*request.table, fetched, request.ids, run.first_bag, run.last_bag,
                   [&](int64_t first_id, int64_t n, const float* const* rows) {
                     for (int64_t i = 0; i < n; ++i) {
                       float* to = request.rows + (first_id + i) * dim;
                       if (stream) {
                         StreamRow(rows[i], dim, to);
                       } else {
                         CopyRow(rows[i], dim, to);
                       }
                     }
                   });
  if (stream) StreamingDone();
  AddToStats(*request.table, run.last_bag - run.first_bag, counts);
}

void PoolRun(const LookupRequest& request, const FetchedRecords& fetched, const Run& run) {
  const int64_t dim = request.table->dim();
  const Bags& bags = request.bags;
  std::fill(request.rows + run.first_bag * dim, request.rows + run.last_bag * dim, 0.0f);
  const auto [first, last] = IdsOfRun(bags, run);
  int64_t bag = run.first_bag;
  const ReadCounts counts = ForEachBlock(
      *request.table, fetched, request.ids, first, last,
      [&](int64_t first_id, int64_t n, const float* const* rows) {
        // These may be the end of one bag, whole bags and the start of another.
        for (int64_t at = first_id; at < first_id + n;) {
          while (bags.row_splits[bag + 1] <= at) ++bag;
          const int64_t end = std::min(first_id + n, bags.row_splits[bag + 1]);
          const float* weights = bags.weights == nullptr ? nullptr : bags.weights + at;
          AddRows(rows + (at - first_id), weights, end - at, dim, request.rows + bag * dim);
          at = end;
        }
      });
  AddToStats(*request.table, last - first, counts);
  if (bags.combiner == Combiner::kSum) return;
  for (int64_t b = run.first_bag; b < run.last_bag; ++b) {
    Scale(bags.Scale(b), dim, request.rows + b * dim);
  }
}

void WeightsGradientRun(const WeightsGradientRequest& request, const FetchedRecords& fetched,
                        const Run& run) {
  const int64_t dim = request.table->dim();
  const Bags& bags = request.bags;
  int64_t bag = run.first_bag;
  const auto [first, last] = IdsOfRun(bags, run);
  // First each id's product of row and output gradient. The forward pass has counted these ids.
  (void)ForEachBlock(*request.table, fetched, request.ids, first, last,
                     [&](int64_t first_id, int64_t n, const float* const* rows) {
                       for (int64_t i = 0; i < n; ++i) {
                         while (bags.row_splits[bag + 1] <= first_id + i) ++bag;
                         request.weight_grads[first_id + i] =
                             Dot(rows[i], request.output_grads + bag * dim, dim);
                       }
                     });
  bags.FinishWeightsGradient(run.first_bag, run.last_bag, request.weight_grads);
}

Status SeeVersion(const LookupRequest& request) {
  if (request.version != nullptr) *request.version = request.table->version();
  if (request.num_updates != nullptr) *request.num_updates = request.table->num_updates();
  return Status::Ok();
}

Status SeeVersion(const WeightsGradientRequest& request) {
  if (request.version == request.table->version()) return Status::Ok();
  return FailedPrecondition(
      "the gradient of weights needs the rows as they were looked up. Take "
      "it before the table is updated. Received: table '" +
      request.table->name() + "', which has changed since the lookup");
}

// The frame of both: locks, checks, lower tiers, then runs of all requests on the executor.
template <typename Request, typename DoRun>
Status ForEachRun(const std::vector<Request>& requests, Executor* executor, const DoRun& do_run) {
  std::vector<TableIds> lists;
  std::vector<EmbeddingTable*> tables;
  std::vector<Run> runs;
  for (size_t r = 0; r < requests.size(); ++r) {
    const Request& request = requests[r];
    KERAS_SPARSE_RETURN_IF_ERROR(request.bags.Check());
    lists.push_back({request.table, request.ids, request.bags.num_ids});
    tables.push_back(request.table);
    const std::vector<int64_t> cuts = CutBags(request.bags, kIdsPerRun);
    for (size_t i = 0; i + 1 < cuts.size(); ++i) runs.push_back({r, cuts[i], cuts[i + 1]});
  }
  const TableLocks locks(tables, TableLocks::Mode::kShared);
  for (const Request& request : requests) KERAS_SPARSE_RETURN_IF_ERROR(SeeVersion(request));
  std::vector<FetchedRecords> fetched;
  KERAS_SPARSE_RETURN_IF_ERROR(FetchedRecords::Fetch(lists, executor, &fetched));
  for (size_t r = 0; r < requests.size(); ++r) fetched[r].Stage(*requests[r].table);
  std::atomic<bool> any_refused{false};
  executor->ParallelFor(static_cast<int64_t>(runs.size()), kIdsPerRun * kNanosecondsPerId,
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i) {
                            const Run& run = runs[static_cast<size_t>(i)];
                            const Request& request = requests[run.request];
                            const auto [first, last] = IdsOfRun(request.bags, run);
                            if (AnyOutOfRange(*request.table, request.ids + first, last - first)) {
                              any_refused.store(true, std::memory_order_relaxed);
                            } else {
                              do_run(request, fetched[run.request], run);
                            }
                          }
                        });
  return any_refused ? CheckIds(lists, executor) : Status::Ok();
}

// Outputs of more bytes leave the last-level cache before anything reads them: half of it is for
// the rows that are read. What uses them comes after all lookups of a step as a rule, not after
// each: a model joins its features before its first layer.
int64_t MaxCachedBytes() {
  constexpr int64_t kMost = int64_t{32} << 20;  // a larger cache has other users, too
  const int64_t cache = ThirdLevelCacheBytes();
  return cache == 0 ? kMost : std::min(cache / 2, kMost);
}

}  // namespace

int64_t CountOutputs(const std::vector<LookupRequest>& requests) {
  int64_t output_bytes = 0;
  for (const LookupRequest& request : requests) {
    output_bytes += 4 * request.bags.num_bags * request.table->dim();
  }
  const int64_t total = OutputTraffic::Add(output_bytes);
  int64_t most = output_bytes;  // a table that is looked up twice a step tells of half a step
  for (const LookupRequest& request : requests) {
    most = std::max(most, request.table->output_traffic().Since(total));
  }
  return most;
}

Status LookupRows(const std::vector<LookupRequest>& requests, Executor* executor) {
  return ForEachRun(
      requests, executor,
      [stream = CountOutputs(requests) > MaxCachedBytes()](
          const LookupRequest& request, const FetchedRecords& fetched, const Run& run) {
        if (request.bags.combiner == Combiner::kNone) {
          CopyRun(request, fetched, run, stream);
        } else {
          PoolRun(request, fetched, run);
        }
      });
}

void SeeVersions(const std::vector<LookupRequest>& requests) {
  std::vector<EmbeddingTable*> tables;
  for (const LookupRequest& request : requests) tables.push_back(request.table);
  const TableLocks locks(tables, TableLocks::Mode::kShared);
  for (const LookupRequest& request : requests) (void)SeeVersion(request);
}

Status LookupWeightsGradient(const std::vector<WeightsGradientRequest>& requests,
                             Executor* executor) {
  return ForEachRun(requests, executor, WeightsGradientRun);
}

}  // namespace keras_sparse
