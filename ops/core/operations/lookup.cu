#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

#include "ops/core/device/arrays_on_device.h"
#include "ops/core/device/device_array.h"
#include "ops/core/index/hbm_index.h"
#include "ops/core/operations/device_operations.h"
#include "ops/core/operations/fetched_records.h"
#include "ops/core/operations/lookup.h"
#include "ops/core/operations/lookup_tables.h"
#include "ops/core/operations/pool_rows.h"
#include "ops/core/operations/row_lookup_result.h"
#include "ops/core/optimizer/catch_up.h"
#include "ops/core/table/table_locks.h"

namespace keras_sparse::cuda_impl {
namespace {

// Finds the position of each id among the keys.
//   found  (ids.num_ids) in the GPU's memory
Status FindNumbers(const std::vector<int64_t>& keys, const TableIds& ids, Device* device,
                   uint32_t* found) {
  std::vector<uint32_t> numbers(keys.size());
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<uint32_t>(i);
  DeviceArray<int64_t> device_keys;
  DeviceArray<uint32_t> device_numbers;
  HbmIndex index;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<int64_t>::Copy(device, keys, &device_keys));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Copy(device, numbers, &device_numbers));
  KERAS_SPARSE_RETURN_IF_ERROR(HbmIndex::Open(device, &index));
  KERAS_SPARSE_RETURN_IF_ERROR(
      index.Insert(device_keys.data(), device_numbers.data(), device_keys.size()));
  index.Find(ids.ids, ids.num_ids, found);
  return Status::Ok();
}

// The rows of ids in cold tiers, copied to the GPU's memory for the time of the lookup. Rows are
// not promoted. The records stay staged for the update of the same step.
class LowerTierReads {
 public:
  // Reads the rows of each list that was found. Empty if all rows are above.
  static Status Read(const RowLookupResult& found, const std::vector<TableIds>& lists,
                     Device* device, std::vector<LowerTierReads>* rows);

  // For IdRows; null if there are none.
  const uint32_t* found() const { return found_.data(); }
  const char* rows() const { return rows_.data(); }
  // Returns how many of the ids have a cold row.
  int64_t num_hits() const { return num_hits_; }

 private:
  // Reads the rows of one list.
  Status Read(const MissingIds& missing, const TableIds& ids, Device* device);

  DeviceArray<uint32_t> found_;
  DeviceArray<char> rows_;  // of the table's row type
  int64_t num_hits_ = 0;
};

Status LowerTierReads::Read(const RowLookupResult& found, const std::vector<TableIds>& lists,
                            Device* device, std::vector<LowerTierReads>* rows) {
  rows->clear();
  rows->resize(lists.size());
  std::vector<size_t> over_cold;
  for (size_t i = 0; i < lists.size(); ++i) {
    if (lists[i].state->tiers.HasLowerTierReads()) over_cold.push_back(i);
  }
  std::vector<MissingIds> missing;
  KERAS_SPARSE_RETURN_IF_ERROR(found.ReadMissing(over_cold, &missing));
  for (size_t i = 0; i < over_cold.size(); ++i) {
    const size_t list = over_cold[i];
    KERAS_SPARSE_RETURN_IF_ERROR((*rows)[list].Read(missing[i], lists[list], device));
  }
  return Status::Ok();
}

Status LowerTierReads::Read(const MissingIds& missing, const TableIds& ids, Device* device) {
  if (missing.ids.empty()) return Status::Ok();
  const TableState& state = *ids.state;
  FetchedRecords fetched;
  KERAS_SPARSE_RETURN_IF_ERROR(fetched.FetchCold(state.tiers, missing.ids));
  fetched.Stage(state.tiers);
  if (fetched.empty()) return Status::Ok();
  const int64_t dim = state.options.output_dim;
  std::vector<int64_t> keys;
  // Current values of the rows, which are smaller than their records.
  const FloatType type = state.layout().types().row;
  const int64_t row_bytes = FloatBytes(type) * dim;
  std::vector<char> values(fetched.keys().size() * static_cast<size_t>(row_bytes));
  std::vector<float> floats(static_cast<size_t>(state.rule().float_layout().record_words()));
  char* row = values.data();
  for (size_t i = 0; i < missing.ids.size(); ++i) {
    const float* record = fetched.Find(missing.ids[i]);
    if (record == nullptr) continue;
    if (state.rule().moves_rows()) {
      state.rule_state.ReadFloats(record, floats.data());
      WriteFloats(type, floats.data(), dim, row);
    } else {
      std::memcpy(row, record, static_cast<size_t>(row_bytes));
    }
    row += row_bytes;
    keys.push_back(missing.ids[i]);
    num_hits_ += missing.counts[i];
  }
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Allocate(device, ids.num_ids, &found_));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<char>::Copy(device, values, &rows_));
  return FindNumbers(keys, ids, device, found_.data());
}

void CountLookup(const TableState& state, int64_t num_ids, int64_t num_cold,
                 const IdChecks& checks) {
  ReadCounts counts;
  counts.out_of_range = static_cast<int64_t>(checks.num_outside);
  counts.hits = num_ids - counts.out_of_range - static_cast<int64_t>(checks.num_missing);
  counts.lower_hits = num_cold;
  state.counters.AddLookups(num_ids, counts);
}

template <typename Request>
std::vector<TableIds> ListsOf(const std::vector<Request>& requests, const ReadLocks& locks) {
  std::vector<TableIds> lists;
  for (size_t r = 0; r < requests.size(); ++r) {
    lists.push_back({&locks[r], requests[r].ids, requests[r].bags.num_ids});
  }
  return lists;
}

// The rows that requests read, with memory for rows whose missed steps are applied on reading.
class Reads {
 public:
  template <typename Request>
  Status Find(const std::vector<Request>& requests, const ReadLocks& locks, Device* device) {
    lists_ = ListsOf(requests, locks);
    KERAS_SPARSE_RETURN_IF_ERROR(FindRows(requests, device));
    // Rows below the GPU's memory. Only these need the ids that are missing on the GPU.
    KERAS_SPARSE_RETURN_IF_ERROR(LowerTierReads::Read(found_, lists_, device, &cold_));
    moved_.resize(lists_.size());
    for (size_t r = 0; r < lists_.size(); ++r) {
      KERAS_SPARSE_RETURN_IF_ERROR(SeeVersion(requests[r], locks[r]));
      const TableState& state = *lists_[r].state;
      if (!state.rule().moves_rows()) continue;
      const HbmTable& table = found_.table(r);
      const int64_t n = lists_[r].num_ids;
      KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<char>::Allocate(
          device, n * table.dim * FloatBytes(table.row_type), &moved_[r]));
      KERAS_SPARSE_RETURN_IF_ERROR(ReadMovedRows(state.rule(), state.rule_state.history_on_device(),
                                                 table.records, found_.rows(r), n, moved_[r].data(),
                                                 device));
    }
    return Status::Ok();
  }

  IdRows Of(size_t r) const {
    return {found_.table(r),  lists_[r].ids,    found_.rows(r),
            moved_[r].data(), cold_[r].found(), cold_[r].rows()};
  }
  // As RowLookupResult::Check.
  Status Check() const {
    std::vector<IdChecks> checks;
    return found_.Check(&checks);
  }
  // Caches the row indices of requests that ask for it. If all do, CheckLookups or the update reads
  // the checks; else this waits for them.
  Status FinishLookups(const std::vector<LookupRequest>& requests) const {
    const auto is_kept = [](const LookupRequest& each) { return each.ids_owner != nullptr; };
    const bool waits = !std::all_of(requests.begin(), requests.end(), is_kept);
    std::vector<IdChecks> checks(requests.size());
    if (waits) KERAS_SPARSE_RETURN_IF_ERROR(found_.Check(&checks));
    std::shared_ptr<const HostCopy> copy;
    if (std::any_of(requests.begin(), requests.end(), is_kept)) {
      KERAS_SPARSE_RETURN_IF_ERROR(found_.CopyChecks(&copy));
    }
    for (size_t r = 0; r < requests.size(); ++r) {
      const int64_t num_cold = cold_[r].num_hits();
      if (waits) CountLookup(*lists_[r].state, lists_[r].num_ids, num_cold, checks[r]);
      if (!is_kept(requests[r])) continue;
      CachedRowIndices kept;
      kept.ids_owner = requests[r].ids_owner;
      kept.checks = copy;
      kept.num_cold = num_cold;
      kept.is_checked = waits;
      found_.Keep(r, requests[r].bags, std::move(kept));
    }
    return device_->CheckStarted();
  }

 private:
  Status FindRows(const std::vector<LookupRequest>& /*requests*/, Device* device) {
    device_ = device;
    return RowLookupResult::Find(lists_, device, &found_);
  }
  // The lookup of these ids has found their rows.
  Status FindRows(const std::vector<WeightsGradientRequest>& /*requests*/, Device* device) {
    return RowLookupResult::FindUnlessKept(lists_, device, &found_);
  }

  Device* device_ = nullptr;
  std::vector<TableIds> lists_;
  RowLookupResult found_;
  std::vector<LowerTierReads> cold_;
  std::vector<DeviceArray<char>> moved_;  // of the tables' row types
};

// Shared by lookups and their gradient: checks, locks, reads, then work(reads, device).
template <typename Request, typename Work>
Status Read(const std::vector<Request>& requests, const Work& work) {
  for (const Request& each : requests) KERAS_SPARSE_RETURN_IF_ERROR(each.bags.CheckSizes());
  Device* device = nullptr;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceOf(requests, &device));
  const DeviceScope scope(*device);
  const ReadLocks locks(TablesOf(requests));
  Reads reads;
  KERAS_SPARSE_RETURN_IF_ERROR(reads.Find(requests, locks, device));
  return work(reads, device);
}

Status LookupRows(const std::vector<LookupRequest>& requests) {
  return Read(requests, [&](const Reads& reads, Device* device) {
    std::vector<PoolRequest> pooled;
    for (size_t r = 0; r < requests.size(); ++r) {
      pooled.push_back({reads.Of(r), requests[r].bags, requests[r].rows});
    }
    KERAS_SPARSE_RETURN_IF_ERROR(PoolRows(pooled, device));
    return reads.FinishLookups(requests);
  });
}

Status CheckLookups(const std::vector<TableIds>& lookups) {
  Status status;
  for (const TableIds& lookup : lookups) {
    const TableOptions& options = lookup.state->options;
    const DeviceScope scope(*options.storage.device);
    HbmStore* store = lookup.state->tiers.hbm_store();
    for (const CachedRowIndices& each : store->TakeUnchecked(lookup.ids, lookup.num_ids)) {
      IdChecks checks;
      const Status read = each.ReadChecks(options.storage.device.get(), &checks);
      const Status of_lookup =
          read.ok() ? checks.ToStatus(options.name, options.owned_keys()) : read;
      if (of_lookup.ok()) {
        CountLookup(*lookup.state, each.num_ids, each.num_cold, checks);
        continue;
      }
      store->ForgetKept();
      if (status.ok()) {
        status = of_lookup;
      }
    }
  }
  return status;
}

// Copies of requests' inputs in the device's memory.
class RequestsFromHost {
 public:
  // Copies everything but the rows, which stay as the requests have them.
  Status Copy(const std::vector<LookupRequest>& requests, Device* device) {
    requests_ = requests;
    for (LookupRequest& each : requests_) {
      Bags& bags = each.bags;
      // Kernels rely on valid row_splits, which can be checked here.
      KERAS_SPARSE_RETURN_IF_ERROR(bags.Check());
      inputs_.Add(&each.ids, bags.num_ids);
      if (bags.combiner == Combiner::kNone) bags.row_splits = nullptr;
      inputs_.Add(&bags.row_splits, bags.num_bags + 1);
      inputs_.Add(&bags.weights, bags.num_ids);
    }
    return inputs_.Copy(device);
  }

  // Allocates memory for the rows on the device too.
  // REQUIRES: contiguous rows
  Status PlaceRows(Device* device) {
    std::vector<size_t> order(requests_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [this](size_t a, size_t b) {
      return std::less<>()(requests_[a].rows.data, requests_[b].rows.data);
    });
    int64_t total = 0;
    for (const size_t r : order) {
      const int64_t bytes = BytesOf(requests_[r]);
      if (bytes == 0) continue;
      char* rows = static_cast<char*>(requests_[r].rows.data);
      if (runs_.empty() || runs_.back().rows + runs_.back().bytes != rows) {
        runs_.push_back({rows, total, 0});
      }
      runs_.back().bytes += bytes;
      total += bytes;
    }
    KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<char>::Allocate(device, total, &rows_));
    char* next = rows_.data();
    for (const size_t r : order) {
      requests_[r].rows.data = std::exchange(next, next + BytesOf(requests_[r]));
    }
    return Status::Ok();
  }

  const std::vector<LookupRequest>& requests() const { return requests_; }

  // Copies the rows to the places that the requests name.
  Status CopyRowsBack(Device* device) const {
    for (const Run& run : runs_) {
      KERAS_SPARSE_RETURN_IF_ERROR(
          device->CopyToHost(rows_.data() + run.first_byte, run.bytes, run.rows));
    }
    return Status::Ok();
  }

 private:
  // Rows of requests that are contiguous in host memory, and therefore also on the device.
  struct Run {
    char* rows;
    int64_t first_byte;
    int64_t bytes;
  };

  static int64_t BytesOf(const LookupRequest& request) {
    return request.bags.num_bags * request.table->dim() * FloatBytes(request.rows.type);
  }

  std::vector<LookupRequest> requests_;
  ArraysOnDevice inputs_;
  DeviceArray<char> rows_;
  std::vector<Run> runs_;
};

Status LookupRowsFromHost(const std::vector<LookupRequest>& requests) {
  Device* device = nullptr;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceOf(requests, &device));
  const DeviceScope scope(*device);
  RequestsFromHost on_device;
  KERAS_SPARSE_RETURN_IF_ERROR(on_device.Copy(requests, device));
  return LookupRows(on_device.requests());
}

Status LookupRowsToHost(const std::vector<LookupRequest>& requests) {
  Device* device = nullptr;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceOf(requests, &device));
  const DeviceScope scope(*device);
  RequestsFromHost on_device;
  KERAS_SPARSE_RETURN_IF_ERROR(on_device.Copy(requests, device));
  KERAS_SPARSE_RETURN_IF_ERROR(on_device.PlaceRows(device));
  KERAS_SPARSE_RETURN_IF_ERROR(LookupRows(on_device.requests()));
  return on_device.CopyRowsBack(device);
}

Status LookupWeightsGradient(const std::vector<WeightsGradientRequest>& requests) {
  return Read(requests, [&](const Reads& reads, Device* device) {
    std::vector<WeightsRequest> weights;
    for (size_t r = 0; r < requests.size(); ++r) {
      weights.push_back(
          {reads.Of(r), requests[r].bags, requests[r].output_grads, requests[r].weight_grads});
    }
    KERAS_SPARSE_RETURN_IF_ERROR(WeightsGradient(weights, device));
    return reads.Check();  // the forward pass has counted these ids
  });
}

const bool kRegistered = [] {
  DeviceOperations::Get().lookup_rows = LookupRows;
  DeviceOperations::Get().lookup_rows_from_host = LookupRowsFromHost;
  DeviceOperations::Get().lookup_rows_to_host = LookupRowsToHost;
  DeviceOperations::Get().lookup_weights_gradient = LookupWeightsGradient;
  DeviceOperations::Get().check_lookups = CheckLookups;
  return true;
}();

}  // namespace
}  // namespace keras_sparse::cuda_impl
