// HbmUses: finds the coldest rows of a table in a GPU's memory.
#ifndef KERAS_SPARSE_OPS_CORE_STORES_HBM_HBM_USES_H_
#define KERAS_SPARSE_OPS_CORE_STORES_HBM_HBM_USES_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/device/device.h"
#include "ops/core/record/hbm_records.h"
#include "ops/core/record/row_uses.h"
#include "ops/core/stores/hbm/hbm_transfer.h"

namespace keras_sparse {

// Keeps the RowUses of each row, by its number, in the GPU's memory. A free row has no use.
//
// Finding the coldest rows needs no more memory: a radix selection counts the digits of all scores,
// highest digit first, until the separating score is known. Counts do not depend on the order of
// lanes.
//
// Thread safety: const methods may overlap; any other call needs exclusive access to the object.
class HbmUses {
 public:
  // Bytes per row.
  static constexpr int64_t kRowBytes = sizeof(RowUses);

  // The device must outlive the object.
  //   counts  true: rows with few uses are colder; false: rows whose last use is longest ago
  HbmUses(Device* device, bool counts);

  // All uses until the next call count as one time.
  void BeginUpdate() {
    ++now_;
    num_started_ = 0;
  }
  // Number of rows added since BeginUpdate.
  int64_t num_started() const { return num_started_; }
  void ForgetStarted() { num_started_ = 0; }
  int64_t bytes() const { return uses_.bytes(); }

  // Allocates memory for `num_rows` rows; after an error nothing has changed.
  Status Grow(int64_t num_rows) { return uses_.Grow(num_rows); }
  // Records that rows are removed. Needs no memory.
  //   rows  (n) distinct, in host memory
  Status End(const uint32_t* rows, int64_t n, HbmTransfer* transfer);
  // Enqueues work on the device to record that rows are added and used.
  //   rows  (n) distinct, in the GPU's memory
  void Start(const uint32_t* rows, int64_t n);
  // As Start, for existing rows that are used.
  //   rows  (n) in the GPU's memory: repeats, and kNoHbmRow, allowed
  void Use(const uint32_t* rows, int64_t n);
  void Clear();

  struct Coldest {
    std::vector<uint32_t> rows;  // in no order
    // Rows with the same score, the next colder ones after `rows`: num_of_tied of them complete the
    // n rows.
    std::vector<uint32_t> tied;
    int64_t num_of_tied;
  };
  // Finds the n coldest rows. Waits for the device.
  //   end  no row from here on was ever added
  // REQUIRES: 0 < n <= number of rows
  Status FindColdest(int64_t n, int64_t end, HbmTransfer* transfer, Coldest* coldest) const;

 private:
  // Finds the score that separates n rows, of which *n have exactly this score.
  Status FindScore(int64_t end, HbmTransfer* transfer, uint64_t* score, int64_t* n) const;

  Device* device_;
  bool counts_;
  uint32_t now_ = 0;  // number of updates begun
  int64_t num_started_ = 0;
  HbmRecords uses_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_HBM_HBM_USES_H_
