#include <cstring>

#include "ops/core/device/device_array.h"
#include "ops/core/operations/apply.h"
#include "ops/core/operations/apply_steps.h"
#include "ops/core/operations/check_room.h"
#include "ops/core/operations/device_operations.h"
#include "ops/core/operations/evict_rows.h"
#include "ops/core/operations/fetched_records.h"
#include "ops/core/operations/row_lookup_result.h"
#include "ops/core/operations/update_rows.h"
#include "ops/core/record/new_records.h"
#include "ops/core/table/table_locks.h"

namespace keras_sparse::cuda_impl {
namespace {

// One step of an op's tables, all in the memory of one GPU.
class DeviceApplier {
 public:
  DeviceApplier(const std::vector<ApplyRequest>& requests, const WriteLocks& locks, Device* device,
                Executor* executor)
      : requests_(requests),
        locks_(locks),
        executor_(executor),
        device_(device),
        keys_(requests.size()),
        fetched_(requests.size()),
        leaving_(requests.size()) {
    for (size_t r = 0; r < requests.size(); ++r) {
      for (const OutputGradient& gradient : requests[r].gradients) {
        lists_.push_back({&locks[r], gradient.ids, gradient.bags.num_ids});
        bags_.push_back(gradient.bags);
      }
    }
  }

  Status Run();

 private:
  int64_t SumOfVersions() const;
  Status FindAll(RowLookupResult* found) const {
    return RowLookupResult::FindUnlessKept(lists_, device_, found);
  }
  // As FindAll; also reads the checks of the ids into checks_.
  Status FindAndCheck(RowLookupResult* found);
  // Reads the records of missing ids from the tiers below the GPU's memory into fetched_.
  Status FetchCold();
  // Selects the rows to evict, as GradientApplier::MakeRoom does, into leaving_.
  Status FindRoomForAll();
  // Reserves all memory for the rows that a table will get, so that no table changes if another has
  // no room.
  Status Reserve(size_t r);
  // Promotes the fetched rows.
  Status Promote(size_t r);
  // Creates rows for the other missing ids, except those that the table's filter rejects.
  Status CreateRows(size_t r);
  // Removes from keys_[r], which holds all missing ids, the keys that get no new row.
  Status ChooseNew(size_t r);
  //   keys  (n) in the GPU's memory
  Status CreateRowsOf(size_t r, const int64_t* keys, int64_t n);
  Status UpdateAll(const RowLookupResult& found) const;
  // Runs the whole change.
  Status CreateAndUpdate(RowLookupResult* found);

  const std::vector<ApplyRequest>& requests_;
  const WriteLocks& locks_;
  Executor* executor_;
  Device* device_;
  // Of each gradient of each request.
  std::vector<TableIds> lists_;
  std::vector<Bags> bags_;
  std::vector<IdChecks> checks_;
  // For each request: the ids without a row on the GPU; and their copies in host memory where the
  // CPU needs them.
  std::vector<MissingKeys> missing_;
  std::vector<std::vector<int64_t>> keys_;
  std::vector<FetchedRecords> fetched_;
  std::vector<EvictionCandidates> leaving_;
  size_t num_promoted_ = 0;  // tables whose fetched rows are on the GPU
};

int64_t DeviceApplier::SumOfVersions() const {
  int64_t sum = 0;
  for (size_t r = 0; r < requests_.size(); ++r) sum += locks_[r].version;
  return sum;
}

Status DeviceApplier::FindAndCheck(RowLookupResult* found) {
  KERAS_SPARSE_RETURN_IF_ERROR(FindAll(found));
  KERAS_SPARSE_RETURN_IF_ERROR(found->CheckBagsUnlessKept(bags_));
  return found->Check(&checks_);
}

Status DeviceApplier::FetchCold() {
  for (size_t r = 0; r < requests_.size(); ++r) {
    const TierStack& tiers = locks_[r].tiers;
    if (missing_[r].size() == 0 || !tiers.HasLowerTierReads()) continue;
    KERAS_SPARSE_RETURN_IF_ERROR(missing_[r].ReadKeys(&keys_[r]));
    KERAS_SPARSE_RETURN_IF_ERROR(fetched_[r].FetchCold(tiers, keys_[r]));
  }
  return Status::Ok();
}

Status DeviceApplier::FindRoomForAll() {
  for (size_t r = 0; r < requests_.size(); ++r) {
    const TableState& state = locks_[r];
    // Counts rows of lower tiers as new; FindRoom tells them apart.
    const bool has_room_for_all =
        missing_[r].size() <= state.limit.max_rows - state.tiers.num_rows();
    if (has_room_for_all && !state.limit.queue.expects_keys(state.version)) continue;
    std::vector<int64_t> ids;
    for (const TableIds& list : lists_) {
      if (list.state == &state) KERAS_SPARSE_RETURN_IF_ERROR(AppendIds(list, device_, &ids));
    }
    KERAS_SPARSE_RETURN_IF_ERROR(FindRoom(&locks_[r], ids.data(), static_cast<int64_t>(ids.size()),
                                          executor_, &leaving_[r]));
  }
  return Status::Ok();
}

Status DeviceApplier::Reserve(size_t r) {
  const TableState& state = locks_[r];
  int64_t num_coming = missing_[r].size();
  if (num_coming == 0) return Status::Ok();
  if (state.gate.filter() != nullptr) {
    if (keys_[r].empty()) KERAS_SPARSE_RETURN_IF_ERROR(missing_[r].ReadKeys(&keys_[r]));
    std::vector<int64_t> counts(keys_[r].size(), 1);
    if (state.gate.counts_occurrences()) {
      KERAS_SPARSE_RETURN_IF_ERROR(missing_[r].ReadCounts(&counts));
    }
    for (size_t i = 0; i < keys_[r].size(); ++i) {
      const int64_t key = keys_[r][i];
      const bool is_cold = !fetched_[r].empty() && fetched_[r].Find(key) != nullptr;
      if (is_cold || state.gate.WouldAdmit(key, static_cast<uint32_t>(counts[i]))) continue;
      --num_coming;
    }
  }
  num_coming -= NumLeavingGpu(state, leaving_[r]);
  return num_coming > 0 ? state.tiers.hbm_store()->Reserve(num_coming) : Status::Ok();
}

Status DeviceApplier::Promote(size_t r) {
  const FetchedRecords& fetched = fetched_[r];
  if (fetched.empty()) return Status::Ok();
  HbmStore* store = locks_[r].tiers.hbm_store();
  const auto record_bytes = static_cast<size_t>(store->record_bytes());
  // Rows are numbered in the order of their keys, whichever thread has read them.
  std::vector<int64_t> keys;
  std::vector<char> records(fetched.keys().size() * record_bytes);
  for (const int64_t key : keys_[r]) {
    const float* record = fetched.Find(key);
    if (record == nullptr) continue;
    std::memcpy(&records[keys.size() * record_bytes], record, record_bytes);
    keys.push_back(key);
  }
  return store->Put(keys.data(), static_cast<int64_t>(keys.size()), records.data());
}

Status DeviceApplier::ChooseNew(size_t r) {
  TableState& state = locks_[r];
  const FetchedRecords& fetched = fetched_[r];
  std::vector<int64_t>& keys = keys_[r];
  std::vector<bool> are_new(keys.size(), true);
  for (size_t i = 0; i < keys.size() && !fetched.empty(); ++i) {
    are_new[i] = fetched.Find(keys[i]) == nullptr;
  }
  if (AdmissionFilter* filter = state.gate.filter(); filter != nullptr) {
    // The filter counts occurrences in the order of arrival.
    std::vector<uint32_t> arrivals;
    KERAS_SPARSE_RETURN_IF_ERROR(missing_[r].ReadArrivals(&arrivals));
    std::vector<int64_t> occurrences;
    if (filter->counts_occurrences()) {
      KERAS_SPARSE_RETURN_IF_ERROR(missing_[r].ReadCounts(&occurrences));
    }
    const bool shares_counts = filter->keys_share_counts();
    std::vector<uint32_t> waiting;
    const auto num_occurrences = [&](uint32_t i) {
      return occurrences.empty() ? 1 : static_cast<uint32_t>(occurrences[i]);
    };
    for (const uint32_t i : arrivals) {
      if (!are_new[i]) continue;
      are_new[i] = shares_counts ? filter->WouldAdmit(keys[i], num_occurrences(i))
                                 : filter->Admit(keys[i], num_occurrences(i));
      if (!are_new[i]) waiting.push_back(i);
    }
    state.counters.filtered_ids += static_cast<int64_t>(waiting.size());
    for (const uint32_t i : waiting) {
      if (shares_counts) filter->CountWaiting(keys[i], num_occurrences(i));
    }
  }
  size_t num_new = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (are_new[i]) keys[num_new++] = keys[i];
  }
  keys.resize(num_new);
  return Status::Ok();
}

Status DeviceApplier::CreateRows(size_t r) {
  AdmissionGate& gate = locks_[r].gate;
  const MissingKeys& missing = missing_[r];
  if (missing.size() == 0) return Status::Ok();
  if (fetched_[r].empty() && gate.filter() == nullptr) {
    return CreateRowsOf(r, missing.keys(), missing.size());
  }
  if (keys_[r].empty()) KERAS_SPARSE_RETURN_IF_ERROR(missing.ReadKeys(&keys_[r]));
  KERAS_SPARSE_RETURN_IF_ERROR(ChooseNew(r));
  if (keys_[r].empty()) return Status::Ok();
  DeviceArray<int64_t> keys;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<int64_t>::Copy(device_, keys_[r], &keys));
  KERAS_SPARSE_RETURN_IF_ERROR(CreateRowsOf(r, keys.data(), keys.size()));
  for (const int64_t key : keys_[r]) gate.Forget(key);
  return Status::Ok();
}

Status DeviceApplier::CreateRowsOf(size_t r, const int64_t* keys, int64_t n) {
  TableState& state = locks_[r];
  HbmStore* store = state.tiers.hbm_store();
  DeviceArray<uint32_t> rows;
  KERAS_SPARSE_RETURN_IF_ERROR(store->Create(keys, n, &rows));
  const Status filled = InitializeRecords(store->records_view(), keys, rows.data(), n,
                                          state.gate.initializer().rows(), state.layout(),
                                          state.rule().step(), device_);
  if (!filled.ok()) {  // leave no row without content
    std::vector<int64_t> created(static_cast<size_t>(n));
    KERAS_SPARSE_RETURN_IF_ERROR(
        device_->CopyToHost(keys, n * static_cast<int64_t>(sizeof(int64_t)), created.data()));
    (void)store->Erase(created.data(), n);
    return filled;
  }
  state.counters.created_rows += n;
  return Status::Ok();
}

Status DeviceApplier::UpdateAll(const RowLookupResult& found) const {
  std::vector<UpdateRequest> updates;
  size_t list = 0;
  for (size_t r = 0; r < requests_.size(); ++r) {
    const TableState& state = locks_[r];
    const HbmTable& table = found.table(list);
    std::vector<FoundGradient> gradients;
    for (const OutputGradient& gradient : requests_[r].gradients) {
      gradients.push_back({gradient, found.rows(list++)});
    }
    updates.push_back({table,
                       &state.rule(),
                       state.rule_state.history_on_device(),
                       state.rule_state.clock(),
                       std::move(gradients),
                       {state.rounding(), state.tiers.hbm_store()->keys_view()}});
  }
  return UpdateRows(updates, found.any_refused(), device_);
}

Status DeviceApplier::CreateAndUpdate(RowLookupResult* found) {
  bool has_new = false;
  for (size_t r = 0; r < requests_.size(); ++r) {
    has_new = has_new || missing_[r].size() > 0;
    KERAS_SPARSE_RETURN_IF_ERROR(Promote(r));
    ++num_promoted_;
    KERAS_SPARSE_RETURN_IF_ERROR(CreateRows(r));
  }
  if (has_new) KERAS_SPARSE_RETURN_IF_ERROR(FindAll(found));
  for (size_t i = 0; i < lists_.size(); ++i) {
    lists_[i].state->tiers.hbm_store()->Use(found->rows(i), lists_[i].num_ids);
  }
  KERAS_SPARSE_RETURN_IF_ERROR(UpdateAll(*found));
  return device_->CheckStarted();  // no later call waits for the last kernels
}

Status DeviceApplier::Run() {
  KERAS_SPARSE_RETURN_IF_ERROR(CheckSteps(requests_, locks_));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceOperations::Get().check_lookups(lists_));
  RowLookupResult found;
  int64_t version = SumOfVersions();
  KERAS_SPARSE_RETURN_IF_ERROR(FindAndCheck(&found));
  KERAS_SPARSE_RETURN_IF_ERROR(BeginChanges(requests_, locks_, executor_));
  if (SumOfVersions() != version) {  // rows may have moved
    KERAS_SPARSE_RETURN_IF_ERROR(FindAndCheck(&found));
  }
  KERAS_SPARSE_RETURN_IF_ERROR(found.FindMissing(checks_, &missing_));
  version = SumOfVersions();
  const std::vector<int64_t> versions = VersionsOf(requests_, locks_);
  KERAS_SPARSE_RETURN_IF_ERROR(FindRoomForAll());
  KERAS_SPARSE_RETURN_IF_ERROR(FetchCold());
  for (size_t r = 0; r < requests_.size(); ++r) KERAS_SPARSE_RETURN_IF_ERROR(Reserve(r));
  // From here on the step cannot fail for lack of room. It evicts none of its own rows, so the same
  // ids are missing.
  for (size_t r = 0; r < requests_.size(); ++r) {
    KERAS_SPARSE_RETURN_IF_ERROR(EvictCandidates(leaving_[r], &locks_[r], executor_));
  }
  if (SumOfVersions() != version) KERAS_SPARSE_RETURN_IF_ERROR(FindAll(&found));
  BeginSteps(requests_, locks_, versions);
  Status status = CreateAndUpdate(&found);
  FinishSteps(requests_, locks_, executor_);
  for (size_t r = 0; r < requests_.size(); ++r) {
    const Status erased =
        r < num_promoted_ ? fetched_[r].EraseCold(&locks_[r].tiers) : Status::Ok();
    if (status.ok()) status = erased;
    locks_[r].tiers.hbm_store()->ForgetKept();  // the update has used the kept rows
    locks_[r].FinishChange(executor_);
  }
  return status;
}

Status ApplyGradients(const std::vector<ApplyRequest>& requests, Executor* executor) {
  for (const ApplyRequest& request : requests) {
    KERAS_SPARSE_RETURN_IF_ERROR(CheckGradients(request));
    Bags all;
    for (const OutputGradient& each : request.gradients) {
      KERAS_SPARSE_RETURN_IF_ERROR(each.bags.CheckSizes());
      all.num_ids += each.bags.num_ids;
      all.num_bags += each.bags.num_bags;
    }
    KERAS_SPARSE_RETURN_IF_ERROR(all.CheckSizes());
  }
  Device* device = nullptr;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceOf(requests, &device));
  const DeviceScope scope(*device);
  const WriteLocks locks(TablesOf(requests));
  return DeviceApplier(requests, locks, device, executor).Run();
}

const bool kRegistered = [] {
  DeviceOperations::Get().apply_gradients = ApplyGradients;
  return true;
}();

}  // namespace
}  // namespace keras_sparse::cuda_impl
