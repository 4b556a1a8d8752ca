#include <algorithm>
#include <cstring>
#include <utility>

#include "ops/core/device/device_array.h"
#include "ops/core/ids/check_bags.h"
#include "ops/core/operations/apply.h"
#include "ops/core/operations/apply_steps.h"
#include "ops/core/operations/check_room.h"
#include "ops/core/operations/device_operations.h"
#include "ops/core/operations/evict_rows.h"
#include "ops/core/operations/fetched_records.h"
#include "ops/core/operations/found_rows.h"
#include "ops/core/operations/update_rows.h"
#include "ops/core/record/new_records.h"
#include "ops/core/table/eviction_candidates.h"
#include "ops/core/table/table_locks.h"

namespace keras_sparse::cuda_impl {
namespace {

// One step of the tables of an op, all in the memory of one GPU.
class DeviceApplier {
 public:
  DeviceApplier(const std::vector<ApplyRequest>& requests, const WriteLocks& locks, Device* device,
                Executor* executor)
      : requests_(requests),
        locks_(locks),
        executor_(executor),
        device_(device),
        missing_(requests.size()),
        fetched_(requests.size()) {}

  Status Run();

 private:
  int64_t SumOfVersions() const;
  Status FindAll(FoundRows* found) const;
  // The same, and what is to be said of the ids, into checks_.
  Status FindAndCheck(FoundRows* found);
  // The ids that have no row on the GPU in a dynamic table, into missing_.
  Status ReadMissing(const FoundRows& found);
  // What the tiers below it have of these, into fetched_.
  Status FetchCold();
  // As GradientApplier::MakeRoom.
  Status MakeRoom();
  // Brings the rows that were fetched up.
  Status Promote(size_t r);
  // Gives the other missing ids rows, but for those that the table's filter does not admit.
  Status CreateRows(size_t r);
  Status InitializeRows(size_t r, const std::vector<int64_t>& keys,
                        const std::vector<uint32_t>& rows);
  Status UpdateAll(const FoundRows& found) const;
  // All of it.
  Status CreateAndUpdate(FoundRows* found);

  const std::vector<ApplyRequest>& requests_;
  const WriteLocks& locks_;
  Executor* executor_;
  Device* device_;
  // Of each request, distinct, in the order in which they first came.
  std::vector<std::vector<int64_t>> missing_;
  std::vector<IdChecks> checks_;
  std::vector<FetchedRecords> fetched_;
  size_t num_promoted_ = 0;  // tables whose fetched rows are on the GPU
};

int64_t DeviceApplier::SumOfVersions() const {
  int64_t sum = 0;
  for (size_t r = 0; r < requests_.size(); ++r) sum += locks_[r].version;
  return sum;
}

Status DeviceApplier::FindAll(FoundRows* found) const {
  std::vector<DeviceIds> lists;
  for (size_t r = 0; r < requests_.size(); ++r) {
    const OutputGradient& gradient = requests_[r].gradient;
    lists.push_back({&locks_[r], gradient.ids, gradient.bags.num_ids});
  }
  return FoundRows::Find(lists, device_, found);
}

Status DeviceApplier::FindAndCheck(FoundRows* found) {
  KERAS_SPARSE_RETURN_IF_ERROR(FindAll(found));
  std::vector<BagsToCheck> bags;
  for (size_t r = 0; r < requests_.size(); ++r) {
    bags.push_back({requests_[r].gradient.bags, found->table(r).checks});
  }
  KERAS_SPARSE_RETURN_IF_ERROR(CheckBags(bags, device_));
  return found->Check(&checks_);
}

Status DeviceApplier::ReadMissing(const FoundRows& found) {
  std::vector<size_t> with_missing;
  for (size_t r = 0; r < requests_.size(); ++r) {
    missing_[r].clear();
    if (checks_[r].num_missing > 0) with_missing.push_back(r);
  }
  std::vector<MissingIds> missing;
  KERAS_SPARSE_RETURN_IF_ERROR(found.ReadMissing(with_missing, &missing));
  for (size_t i = 0; i < missing.size(); ++i) missing_[with_missing[i]] = std::move(missing[i].ids);
  return Status::Ok();
}

Status DeviceApplier::FetchCold() {
  for (size_t r = 0; r < requests_.size(); ++r) {
    const TierStack& tiers = locks_[r].tiers;
    if (missing_[r].empty() || !tiers.HasColdRows()) continue;
    KERAS_SPARSE_RETURN_IF_ERROR(fetched_[r].FetchCold(tiers, missing_[r]));
  }
  return Status::Ok();
}

Status DeviceApplier::MakeRoom() {
  std::vector<EvictionCandidates> leaving(requests_.size());
  for (size_t r = 0; r < requests_.size(); ++r) {
    const TableState& state = locks_[r];
    // With those of lower tiers, which FindRoom tells from new ones.
    const auto num_missing = static_cast<int64_t>(missing_[r].size());
    if (num_missing <= state.limit.max_rows - state.tiers.num_rows()) continue;
    const OutputGradient& gradient = requests_[r].gradient;
    std::vector<int64_t> ids(static_cast<size_t>(gradient.bags.num_ids));
    KERAS_SPARSE_RETURN_IF_ERROR(device_->CopyToHost(
        gradient.ids, static_cast<int64_t>(ids.size() * sizeof(int64_t)), ids.data()));
    KERAS_SPARSE_RETURN_IF_ERROR(
        FindRoom(state, ids.data(), gradient.bags.num_ids, executor_, &leaving[r]));
  }
  for (size_t r = 0; r < requests_.size(); ++r) {
    KERAS_SPARSE_RETURN_IF_ERROR(EvictCandidates(leaving[r], &locks_[r], executor_));
  }
  return Status::Ok();
}

Status DeviceApplier::Promote(size_t r) {
  const FetchedRecords& fetched = fetched_[r];
  if (fetched.empty()) return Status::Ok();
  const auto is_fetched = [&fetched](int64_t key) { return fetched.Find(key) != nullptr; };
  std::vector<int64_t>& missing = missing_[r];
  missing.erase(std::remove_if(missing.begin(), missing.end(), is_fetched), missing.end());
  // Rows have the numbers of the order of their keys, whoever has read them.
  std::vector<int64_t> keys = fetched.keys();
  std::sort(keys.begin(), keys.end());
  HbmStore* store = locks_[r].tiers.hbm_store();
  const auto record_bytes = static_cast<size_t>(store->record_bytes());
  std::vector<char> records(keys.size() * record_bytes);
  for (size_t i = 0; i < keys.size(); ++i) {
    std::memcpy(&records[i * record_bytes], fetched.Find(keys[i]), record_bytes);
  }
  return store->Put(keys.data(), static_cast<int64_t>(keys.size()), records.data());
}

Status DeviceApplier::CreateRows(size_t r) {
  TableState& state = locks_[r];
  std::vector<int64_t>& keys = missing_[r];
  if (AdmissionFilter* filter = state.gate.filter(); filter != nullptr) {
    const auto waits = [filter](int64_t key) { return !filter->Admit(key); };
    const auto admitted_end = std::stable_partition(keys.begin(), keys.end(),
                                                    [&waits](int64_t key) { return !waits(key); });
    state.counters.filtered_ids += keys.end() - admitted_end;
    keys.erase(admitted_end, keys.end());
  }
  if (keys.empty()) return Status::Ok();
  // Rows have the numbers of the order of their keys, whatever the order of ids.
  std::sort(keys.begin(), keys.end());
  HbmStore* store = state.tiers.hbm_store();
  const auto n = static_cast<int64_t>(keys.size());
  std::vector<uint32_t> rows;
  KERAS_SPARSE_RETURN_IF_ERROR(store->Create(keys.data(), n, &rows));
  const Status filled = InitializeRows(r, keys, rows);
  if (!filled.ok()) {
    (void)store->Erase(keys.data(), n);  // no row without content stays behind
    return filled;
  }
  for (const int64_t key : keys) state.gate.Forget(key);
  state.counters.created_rows += n;
  return Status::Ok();
}

Status DeviceApplier::InitializeRows(size_t r, const std::vector<int64_t>& keys,
                                     const std::vector<uint32_t>& rows) {
  const TableState& state = locks_[r];
  DeviceArray<int64_t> device_keys;
  DeviceArray<uint32_t> device_rows;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<int64_t>::Copy(device_, keys, &device_keys));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Copy(device_, rows, &device_rows));
  return InitializeRecords(state.tiers.hbm_store()->records_view(), device_keys.data(),
                           device_rows.data(), device_keys.size(), state.gate.initializer().rows(),
                           state.layout(), state.rule().step(), device_);
}

Status DeviceApplier::UpdateAll(const FoundRows& found) const {
  std::vector<UpdateRequest> updates;
  for (size_t r = 0; r < requests_.size(); ++r) {
    const TableState& state = locks_[r];
    updates.push_back({found.table(r), &state.rule(), state.rule_state.history_on_device(),
                       state.rule_state.num_steps(), requests_[r].gradient, found.rows(r)});
  }
  return UpdateRows(updates, found.any_refused(), device_);
}

Status DeviceApplier::CreateAndUpdate(FoundRows* found) {
  bool has_new = false;
  for (size_t r = 0; r < requests_.size(); ++r) {
    has_new = has_new || !missing_[r].empty();
    KERAS_SPARSE_RETURN_IF_ERROR(Promote(r));
    ++num_promoted_;
    KERAS_SPARSE_RETURN_IF_ERROR(CreateRows(r));
  }
  if (has_new) KERAS_SPARSE_RETURN_IF_ERROR(FindAll(found));
  for (size_t r = 0; r < requests_.size(); ++r) {
    locks_[r].tiers.hbm_store()->Use(found->rows(r), requests_[r].gradient.bags.num_ids);
  }
  return UpdateAll(*found);
}

Status DeviceApplier::Run() {
  KERAS_SPARSE_RETURN_IF_ERROR(CheckSteps(requests_, locks_));
  FoundRows found;
  int64_t version = SumOfVersions();
  KERAS_SPARSE_RETURN_IF_ERROR(FindAndCheck(&found));
  KERAS_SPARSE_RETURN_IF_ERROR(BeginChanges(requests_, locks_, executor_));
  if (SumOfVersions() != version) {  // rows may have moved
    KERAS_SPARSE_RETURN_IF_ERROR(FindAndCheck(&found));
  }
  KERAS_SPARSE_RETURN_IF_ERROR(ReadMissing(found));
  version = SumOfVersions();
  KERAS_SPARSE_RETURN_IF_ERROR(MakeRoom());
  if (SumOfVersions() != version) {
    KERAS_SPARSE_RETURN_IF_ERROR(FindAndCheck(&found));
    KERAS_SPARSE_RETURN_IF_ERROR(ReadMissing(found));
  }
  KERAS_SPARSE_RETURN_IF_ERROR(FetchCold());
  BeginSteps(requests_, locks_);
  Status status = CreateAndUpdate(&found);
  FinishSteps(requests_, locks_, executor_);
  for (size_t r = 0; r < requests_.size(); ++r) {
    const Status erased =
        r < num_promoted_ ? fetched_[r].EraseCold(&locks_[r].tiers) : Status::Ok();
    if (status.ok()) status = erased;
    locks_[r].FinishChange(executor_);
  }
  return status;
}

Status ApplyGradients(const std::vector<ApplyRequest>& requests, Executor* executor) {
  for (const ApplyRequest& request : requests) {
    KERAS_SPARSE_RETURN_IF_ERROR(request.gradient.bags.CheckSizes());
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
