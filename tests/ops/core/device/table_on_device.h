// The rows of a table in a GPU's memory, to compare what kernels do with what the CPU does.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_DEVICE_TABLE_ON_DEVICE_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_DEVICE_TABLE_ON_DEVICE_H_

#include "ops/core/device/device.h"
#include "ops/core/device/device_array.h"
#include "ops/core/ids/bags.h"
#include "ops/core/ids/id_checks.h"
#include "ops/core/operations/find_rows.h"
#include "ops/core/record/hbm_records.h"
#include "ops/core/table/embedding_table.h"
#include "ops/core/table/table_locks.h"
#include "tests/ops/core/device/device_testing.h"

namespace keras_sparse {

// The records of a static table as they stand, one after the other.
inline std::string RecordsOf(const EmbeddingTable& table) {
  const ReadLocks locks({&table});
  std::vector<int64_t> keys;
  std::vector<const float*> records;
  const FirstTier& tier = locks[0].tiers.first_tier();
  for (int64_t cursor = 0; cursor >= 0;) cursor = tier.Walk(cursor, 1000, &keys, &records);
  std::string bytes;
  const auto record_bytes = static_cast<size_t>(locks[0].layout().record_bytes());
  for (const float* record : records) {
    bytes.append(reinterpret_cast<const char*>(record), record_bytes);
  }
  return bytes;
}

class TableOnDevice {
 public:
  // A copy of a static table.
  TableOnDevice(Device* device, const EmbeddingTable& table)
      : dim_(table.dim()),
        outside_is_zero_(table.options().out_of_range_is_zero),
        checks_(OnDevice<IdChecks>(device, {IdChecks()})) {
    const std::string bytes = RecordsOf(table);
    const ReadLocks locks({&table});
    EXPECT_TRUE(IsOk(
        HbmRecords::Allocate(device, table.options().input_dim, locks[0].layout(), &records_)));
    EXPECT_TRUE(IsOk(records_.Write(0, records_.num_rows(), bytes.data())));
    record_bytes_ = locks[0].layout().record_bytes();
    default_rows_ = locks[0].gate.default_rows().rows();
    row_type_ = locks[0].layout().types().row;
  }

  cuda_impl::HbmTable view() const {
    return {records_.view(),
            dim_,
            OwnedKeys{records_.num_rows()},
            {},
            outside_is_zero_,
            default_rows_,
            checks_.data(),
            row_type_};
  }
  std::string Records() const {
    std::string bytes(static_cast<size_t>(records_.num_rows() * record_bytes_), '\0');
    EXPECT_TRUE(IsOk(records_.Read(0, records_.num_rows(), bytes.data())));
    return bytes;
  }
  IdChecks Checks() const { return Values(checks_)[0]; }

 private:
  int64_t dim_;
  int64_t record_bytes_ = 0;
  bool outside_is_zero_;
  HbmRecords records_;
  InitialRows default_rows_;
  FloatType row_type_;
  DeviceArray<IdChecks> checks_;
};

// The rows of ids, as FindRows gives them.
class RowsOnDevice {
 public:
  RowsOnDevice(Device* device, const cuda_impl::HbmTable& table, const int64_t* ids,
               int64_t num_ids)
      : rows_(OnDevice(device, std::vector<uint32_t>(static_cast<size_t>(num_ids), 77))),
        any_refused_(OnDevice<uint32_t>(device, {0})) {
    EXPECT_TRUE(IsOk(
        cuda_impl::FindRows({{table, ids, num_ids, rows_.data()}}, any_refused_.data(), device)));
  }

  const uint32_t* rows() const { return rows_.data(); }
  bool any_refused() const { return Values(any_refused_)[0] != 0; }

 private:
  DeviceArray<uint32_t> rows_;
  DeviceArray<uint32_t> any_refused_;
};

// Ids and their bags.
class BagsOnDevice {
 public:
  BagsOnDevice(Device* device, const std::vector<int64_t>& ids, const Bags& bags)
      : ids_(OnDevice(device, ids)), bags_(bags) {
    if (bags.combiner != Combiner::kNone) {
      splits_ = OnDevice<int64_t>(device, {bags.row_splits, bags.row_splits + bags.num_bags + 1});
    }
    if (bags.weights != nullptr) {
      weights_ = OnDevice<float>(device, {bags.weights, bags.weights + bags.num_ids});
    }
    bags_.row_splits = splits_.data();
    bags_.weights = weights_.data();
  }

  const int64_t* ids() const { return ids_.data(); }
  const Bags& bags() const { return bags_; }

 private:
  DeviceArray<int64_t> ids_;
  DeviceArray<int64_t> splits_;
  DeviceArray<float> weights_;
  Bags bags_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_DEVICE_TABLE_ON_DEVICE_H_
