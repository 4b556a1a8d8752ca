// Which rows of a table in a GPU's memory are the coldest.
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

// The RowUses of each row, by its number, in the GPU's memory. A row that is free has no use.
//
// The coldest rows are found without any more memory: digit by digit of their scores, the highest
// first, rows are counted by digit until the score is known that separates them. Counts do not
// depend on the order of lanes.
//
// Thread safety: const methods may overlap; any other call needs the object alone.
class HbmUses {
 public:
  // What it takes for a row.
  static constexpr int64_t kRowBytes = sizeof(RowUses);

  // The device must outlive it.
  //   counts  whether rows with few uses are colder, or those whose last one lies furthest back
  HbmUses(Device* device, bool counts);

  // What is used until the next call is used at one time.
  void BeginUpdate() {
    ++now_;
    num_started_ = 0;
  }
  // Rows that have come in since then.
  int64_t num_started() const { return num_started_; }
  void ForgetStarted() { num_started_ = 0; }
  int64_t bytes() const { return uses_.bytes(); }

  // Makes memory for so many rows; after an error nothing has changed.
  Status Grow(int64_t num_rows) { return uses_.Grow(num_rows); }
  // Rows go. It needs no memory.
  //   rows  (n) all different, in the CPU's memory
  Status End(const uint32_t* rows, int64_t n, HbmTransfer* transfer);
  // Gives the device the work to note that rows come in, and are used.
  //   rows  (n) all different, in the GPU's memory
  void Start(const uint32_t* rows, int64_t n);
  // The same for rows that are used.
  //   rows  (n) in the GPU's memory: repeats, and kNoHbmRow, allowed
  void Use(const uint32_t* rows, int64_t n);
  void Clear();

  struct Coldest {
    std::vector<uint32_t> rows;  // in no order
    // Rows that are as cold as each other, and less than those: num_of_tied of them are the next.
    std::vector<uint32_t> tied;
    int64_t num_of_tied;
  };
  // Finds n rows that leave first. Waits for the device.
  //   end  no row from here on was ever started
  // REQUIRES: there are as many; n > 0
  Status FindColdest(int64_t n, int64_t end, HbmTransfer* transfer, Coldest* coldest) const;

 private:
  // The score that separates n rows, of which *n have just that.
  Status FindScore(int64_t end, HbmTransfer* transfer, uint64_t* score, int64_t* n) const;

  Device* device_;
  bool counts_;
  uint32_t now_ = 0;  // updates begun
  int64_t num_started_ = 0;
  HbmRecords uses_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_HBM_HBM_USES_H_
