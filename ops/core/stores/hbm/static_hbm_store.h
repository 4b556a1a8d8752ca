// StaticHbmStore: a static table in a GPU's memory; row i is at position i.
#ifndef KERAS_SPARSE_OPS_CORE_STORES_HBM_STATIC_HBM_STORE_H_
#define KERAS_SPARSE_OPS_CORE_STORES_HBM_STATIC_HBM_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/core/stores/hbm/hbm_store.h"

namespace keras_sparse {

// All rows always exist: Erase skips them, Clear returns an error, and Put rejects other keys.
class StaticHbmStore : public HbmStore {
 public:
  static Status Open(Device* device, int64_t num_rows, int64_t record_bytes,
                     std::unique_ptr<HbmStore>* store);

  bool is_static() const override { return true; }
  int64_t num_rows() const override { return num_rows_; }
  Status Put(const int64_t* keys, int64_t n, const char* records) override;
  Status Erase(const int64_t* keys, int64_t n) override;
  Status Clear() override;
  Status Create(const int64_t* keys, int64_t n, DeviceArray<uint32_t>* rows) override;
  Status Initialize(const InitialRows& initial_rows, const RecordLayout& layout,
                    int64_t step) override;

 private:
  StaticHbmStore(Device* device, int64_t num_rows, int64_t record_bytes)
      : HbmStore(device, record_bytes), num_rows_(num_rows) {}

  bool Has(int64_t key) const { return key >= 0 && key < num_rows_; }
  // Returns FailedPrecondition, because rows cannot be added or removed.
  Status KeepsItsRows(const std::string& received) const;

  int64_t MostRows(int64_t /*record_bytes*/) const override { return num_rows_; }
  Status FindRows(const int64_t* keys, int64_t n, uint32_t* rows) const override;
  int64_t NextRows(int64_t cursor, int64_t max_rows, std::vector<uint32_t>* rows) const override;
  bool IsInUse(uint32_t row) const override { return Has(row); }
  Status KeysOf(const std::vector<uint32_t>& rows, int64_t* keys) const override;

  const int64_t num_rows_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_HBM_STATIC_HBM_STORE_H_
