#include <algorithm>
#include <vector>

#include "ops/core/index/hbm_index.h"
#include "ops/core/operations/fetched_records.h"
#include "ops/core/operations/lower_tier_reads.h"

namespace keras_sparse::cuda_impl {
namespace {

// Which number each of the keys has among them, for each id.
//   found  (ids.num_ids) in the GPU's memory
Status FindNumbers(const std::vector<int64_t>& keys, const DeviceIds& ids, Device* device,
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

}  // namespace

Status LowerTierReads::Read(const RowLookupResult& found, const std::vector<DeviceIds>& lists,
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

Status LowerTierReads::Read(const MissingIds& missing, const DeviceIds& ids, Device* device) {
  if (missing.ids.empty()) return Status::Ok();
  const TableState& state = *ids.state;
  FetchedRecords fetched;
  KERAS_SPARSE_RETURN_IF_ERROR(fetched.FetchCold(state.tiers, missing.ids));
  fetched.Stage(state.tiers);
  if (fetched.empty()) return Status::Ok();
  const int64_t dim = state.options.output_dim;
  std::vector<int64_t> keys;
  // As they read now, which takes less room than their records.
  std::vector<float> values(fetched.keys().size() * static_cast<size_t>(dim));
  float* row = values.data();
  for (size_t i = 0; i < missing.ids.size(); ++i) {
    const float* record = fetched.Find(missing.ids[i]);
    if (record == nullptr) continue;
    if (state.rule().moves_rows()) {
      state.rule().Read(record, row);
    } else {
      std::copy_n(record, dim, row);
    }
    row += dim;
    keys.push_back(missing.ids[i]);
    num_hits_ += missing.counts[i];
  }
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Allocate(device, ids.num_ids, &found_));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<float>::Copy(device, values, &rows_));
  return FindNumbers(keys, ids, device, found_.data());
}

}  // namespace keras_sparse::cuda_impl
