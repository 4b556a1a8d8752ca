#include "ops/core/operations/lookup.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "ops/core/base/cache_size.h"
#include "ops/core/math/convert_floats.h"
#include "ops/core/math/dot.h"
#include "ops/core/math/prefetch.h"
#include "ops/core/math/vector_math.h"
#include "ops/core/operations/check_ids.h"
#include "ops/core/operations/device_operations.h"
#include "ops/core/operations/fetched_records.h"
#include "ops/core/operations/lookup_tables.h"
#include "ops/core/operations/row_reader.h"
#include "ops/core/table/table_locks.h"

namespace keras_sparse {
namespace {

constexpr int64_t kIdsPerRun = 512;
constexpr int64_t kNanosecondsPerLookedUpId = 20;
// Output rows with a stride are too far apart for the processor's own prefetcher.
constexpr int64_t kRowsWrittenAhead = 16;
// Some consecutive bags of one request.
struct Run {
  size_t request;
  int64_t first_bag;
  int64_t last_bag;
};

// Joins run *at with the runs after it, before `end`, that continue its request, so that a thread
// with many runs starts few. Moves *at past them.
Run JoinRuns(const std::vector<Run>& runs, int64_t end, int64_t* at) {
  Run joined = runs[static_cast<size_t>(*at)];
  for (++*at; *at < end && runs[static_cast<size_t>(*at)].request == joined.request; ++*at) {
    joined.last_bag = runs[static_cast<size_t>(*at)].last_bag;
  }
  return joined;
}

// Returns the ids of a run's bags as [first, second).
std::pair<int64_t, int64_t> IdsOfRun(const Bags& bags, const Run& run) {
  if (bags.combiner == Combiner::kNone) return {run.first_bag, run.last_bag};
  return {bags.row_splits[run.first_bag], bags.row_splits[run.last_bag]};
}

// The functions below return false if the table rejects an id.

// Finishes a run of lookups.
bool FinishLookups(const RowReader& reader, int64_t lookups, bool stream) {
  if (stream) StreamingDone();
  if (reader.refused()) return false;
  reader.CountLookups(lookups);
  return true;
}

// Copies rows of a table to outputs.
class RowCopier {
 public:
  //   stream  whether to write past the caches. Requires CanStreamOutput
  RowCopier(FloatType from, FloatType to, int64_t dim, bool stream)
      : from_(from),
        to_(to),
        dim_(dim),
        stream_(stream),
        // Equal halves are copied as half as many words.
        num_words_(from == FloatType::kFloat32 ? dim : dim / 2),
        copies_words_(from == to && (from == FloatType::kFloat32 || dim % 2 == 0)) {}

  void Copy(const void* row, void* to) {
    if (copies_words_) {
      const auto* words = static_cast<const float*>(row);
      if (stream_) return StreamRow(words, num_words_, static_cast<float*>(to));
      return CopyRow(words, num_words_, static_cast<float*>(to));
    }
    if (to_ == FloatType::kFloat32) {
      auto* floats = static_cast<float*>(to);
      return from_ == FloatType::kBFloat16 ? DecodeRow<BFloat16Rows>(row, dim_, floats, stream_)
                                           : DecodeRow<Float16Rows>(row, dim_, floats, stream_);
    }
    ConvertFloats(from_, row, dim_, to_, to);
  }

 private:
  const FloatType from_;
  const FloatType to_;
  const int64_t dim_;
  const bool stream_;
  const int64_t num_words_;
  const bool copies_words_;
};

bool CopyRun(const LookupRequest& request, const TableState& state, const FetchedRecords& fetched,
             const Run& run, bool stream) {
  const int64_t dim = request.table->dim();
  const OutputRows output = request.rows.Of(dim);
  const bool prefetches_output = output.stride > dim && !stream;
  RowReader reader(state, fetched, request.ids, run.first_bag, run.last_bag);
  RowCopier copier(state.layout().types().row, output.type, dim, stream);
  for (int64_t at = run.first_bag; at < run.last_bag;) {
    const int64_t n = std::min(RowReader::kMaxRows, run.last_bag - at);
    const int64_t rows_ahead = std::min(kRowsWrittenAhead, run.last_bag - at - n);
    const void* const* rows = reader.Next(n);
    for (int64_t i = 0; i < n; ++i, ++at) {
      if (prefetches_output) {
        PrefetchForWrite(output.Row(at + rows_ahead), FloatBytes(output.type) * dim);
      }
      copier.Copy(rows[i], output.Row(at));
    }
  }
  return FinishLookups(reader, run.last_bag - run.first_bag, stream);
}

//   Rows  of the type of the table's rows
template <typename Rows>
bool PoolRunOf(const LookupRequest& request, const TableState& state, const FetchedRecords& fetched,
               const Run& run, bool stream) {
  const int64_t dim = request.table->dim();
  const OutputRows output = request.rows.Of(dim);
  const bool are_floats = output.are_floats();
  const Bags& bags = request.bags;
  const auto [first, last] = IdsOfRun(bags, run);
  RowReader reader(state, fetched, request.ids, first, last);
  const bool prefetches_output = output.stride > dim && !stream;
  // The sum of a bag that has more ids than one block, or whose output is not float32.
  std::vector<float> begun(are_floats ? 0 : static_cast<size_t>(dim));
  int64_t at = first;
  for (int64_t bag = run.first_bag; bag < run.last_bag; ++bag) {
    const int64_t end = bags.row_splits[bag + 1];
    if (prefetches_output) {
      const int64_t ahead = std::min(bag + kRowsWrittenAhead, run.last_bag - 1);
      PrefetchForWrite(output.Row(ahead), FloatBytes(output.type) * dim);
    }
    const float* sum_so_far = nullptr;
    const auto add = [&](int64_t n, RowSum sum) {
      const float* weights = bags.weights == nullptr ? nullptr : bags.weights + at;
      SumRows<Rows>(reader.Next(n), weights, n, dim, sum);
      at += n;
    };
    while (end - at > RowReader::kMaxRows) {
      begun.resize(static_cast<size_t>(dim));
      add(RowReader::kMaxRows, {sum_so_far, begun.data()});
      sum_so_far = begun.data();
    }
    float* sum = are_floats ? output.FloatRow(bag) : begun.data();
    add(end - at, {sum_so_far, sum, bags.Scale(bag), stream});
    if (!are_floats) WriteFloats(output.type, sum, dim, output.Row(bag));
  }
  return FinishLookups(reader, last - first, stream);
}

bool PoolRun(const LookupRequest& request, const TableState& state, const FetchedRecords& fetched,
             const Run& run, bool stream) {
  switch (state.layout().types().row) {
    case FloatType::kBFloat16:
      return PoolRunOf<BFloat16Rows>(request, state, fetched, run, stream);
    case FloatType::kFloat16:
      return PoolRunOf<Float16Rows>(request, state, fetched, run, stream);
    default:
      return PoolRunOf<Float32Rows>(request, state, fetched, run, stream);
  }
}

bool WeightsGradientRun(const WeightsGradientRequest& request, const TableState& state,
                        const FetchedRecords& fetched, const Run& run) {
  const int64_t dim = request.table->dim();
  RowsAsFloats output_grads(request.output_grads, dim);
  const Bags& bags = request.bags;
  const auto [first, last] = IdsOfRun(bags, run);
  RowReader reader(state, fetched, request.ids, first, last);
  const FloatType type = state.layout().types().row;
  std::vector<float> row(static_cast<size_t>(dim));
  // First computes the product of each id's row and the output gradient. The forward pass has
  // counted these ids.
  for (int64_t bag = run.first_bag; bag < run.last_bag; ++bag) {
    if (bags.row_splits[bag] == bags.row_splits[bag + 1]) continue;
    const float* output_grad = output_grads.Row(bag);
    for (int64_t at = bags.row_splits[bag]; at < bags.row_splits[bag + 1]; ++at) {
      const void* read = *reader.Next(1);
      if (type != FloatType::kFloat32) {
        ReadFloats(type, read, dim, row.data());
        read = row.data();
      }
      request.weight_grads[at] = Dot(static_cast<const float*>(read), output_grad, dim);
    }
  }
  bags.FinishWeightsGradient(run.first_bag, run.last_bag, request.weight_grads);
  return !reader.refused();
}

// Shared by lookups and their gradient: locks, checks, reads of lower tiers, then runs of all
// requests on the executor.
template <typename Request, typename DoRun>
Status ForEachRun(const std::vector<Request>& requests, Executor* executor, const DoRun& do_run) {
  std::vector<Run> runs;
  for (size_t r = 0; r < requests.size(); ++r) {
    KERAS_SPARSE_RETURN_IF_ERROR(requests[r].bags.Check());
    const std::vector<int64_t> cuts = CutBags(requests[r].bags, kIdsPerRun);
    for (size_t i = 0; i + 1 < cuts.size(); ++i) runs.push_back({r, cuts[i], cuts[i + 1]});
  }
  const ReadLocks locks(TablesOf(requests));
  std::vector<TableIds> lists;
  for (size_t r = 0; r < requests.size(); ++r) {
    KERAS_SPARSE_RETURN_IF_ERROR(SeeVersion(requests[r], locks[r]));
    lists.push_back({&locks[r], requests[r].ids, requests[r].bags.num_ids});
  }
  std::vector<FetchedRecords> fetched;
  KERAS_SPARSE_RETURN_IF_ERROR(FetchedRecords::Fetch(lists, executor, &fetched));
  for (size_t r = 0; r < requests.size(); ++r) fetched[r].Stage(locks[r].tiers);
  std::atomic<bool> any_refused{false};
  executor->ParallelFor(static_cast<int64_t>(runs.size()), kIdsPerRun * kNanosecondsPerLookedUpId,
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end;) {
                            const Run run = JoinRuns(runs, end, &i);
                            const size_t r = run.request;
                            if (!do_run(requests[r], locks[r], fetched[r], run)) {
                              any_refused.store(true, std::memory_order_relaxed);
                            }
                          }
                        });
  return any_refused ? CheckIds(lists, executor) : Status::Ok();
}

// Returns whether the output can be written past the caches.
bool CanStreamOutput(const LookupRequest& request, FloatType row_type) {
  const int64_t dim = request.table->dim();
  const OutputRows output = request.rows.Of(dim);
  const auto can_stream = [&](int64_t num_words) {
    return CanStream(num_words, static_cast<const float*>(output.Row(0))) &&
           CanStream(num_words, static_cast<const float*>(output.Row(1)));
  };
  if (output.are_floats()) return can_stream(dim);
  const bool copies = request.bags.combiner == Combiner::kNone && output.type == row_type;
  return copies && dim % 2 == 0 && can_stream(dim / 2);
}

// Larger outputs leave the last-level cache before they are read: half of the cache is for the
// rows. Outputs are usually read after all lookups of a step, because a model joins its features
// before its first layer.
int64_t MaxCachedBytes() {
  constexpr int64_t kMost = int64_t{32} << 20;  // larger caches have other users too
  const int64_t cache = ThirdLevelCacheBytes();
  return cache == 0 ? kMost : std::min(cache / 2, kMost);
}

}  // namespace

int64_t CountOutputs(const std::vector<LookupRequest>& requests) {
  int64_t output_bytes = 0;
  for (const LookupRequest& request : requests) {
    output_bytes += FloatBytes(request.rows.type) * request.bags.num_bags * request.table->dim();
  }
  const int64_t total = OutputBytes::Add(output_bytes);
  int64_t most = output_bytes;  // a table that is looked up twice a step measures half a step
  for (const LookupRequest& request : requests) {
    most = std::max(most, request.table->output_bytes().Since(total));
  }
  return most;
}

Status LookupRows(const std::vector<LookupRequest>& requests, Executor* executor) {
  if (AreOnDevice(requests)) return DeviceOperations::Get().lookup_rows(requests);
  return ForEachRun(requests, executor,
                    [exceeds_cache = CountOutputs(requests) > MaxCachedBytes()](
                        const LookupRequest& request, const TableState& state,
                        const FetchedRecords& fetched, const Run& run) {
                      const FloatType type = state.layout().types().row;
                      const bool stream = exceeds_cache && CanStreamOutput(request, type);
                      const bool pools = request.bags.combiner != Combiner::kNone;
                      return (pools ? PoolRun : CopyRun)(request, state, fetched, run, stream);
                    });
}

Status CheckLookups(const std::vector<StepIds>& tables) {
  if (!AreOnDevice(tables)) return Status::Ok();
  const ReadLocks locks(TablesOf(tables));
  std::vector<TableIds> lookups;
  for (size_t t = 0; t < tables.size(); ++t) {
    for (const IdSpan& each : tables[t].lookups) lookups.push_back({&locks[t], each.ids, each.n});
  }
  return DeviceOperations::Get().check_lookups(lookups);
}

Status LookupRowsFromHost(const std::vector<LookupRequest>& requests, Executor* executor) {
  if (AreOnDevice(requests)) return DeviceOperations::Get().lookup_rows_from_host(requests);
  return LookupRows(requests, executor);
}

Status LookupRowsToHost(const std::vector<LookupRequest>& requests, Executor* executor) {
  std::vector<LookupRequest> in_memory;
  std::vector<LookupRequest> on_device;
  for (const LookupRequest& request : requests) {
    (IsOnDevice(*request.table) ? on_device : in_memory).push_back(request);
  }
  if (!on_device.empty()) {
    KERAS_SPARSE_RETURN_IF_ERROR(DeviceOperations::Get().lookup_rows_to_host(on_device));
  }
  return in_memory.empty() ? Status::Ok() : LookupRows(in_memory, executor);
}

void ReadVersions(const std::vector<LookupRequest>& requests) {
  const ReadLocks locks(TablesOf(requests));
  for (size_t r = 0; r < requests.size(); ++r) (void)SeeVersion(requests[r], locks[r]);
}

Status LookupWeightsGradient(const std::vector<WeightsGradientRequest>& requests,
                             Executor* executor) {
  if (AreOnDevice(requests)) return DeviceOperations::Get().lookup_weights_gradient(requests);
  return ForEachRun(requests, executor, WeightsGradientRun);
}

}  // namespace keras_sparse
