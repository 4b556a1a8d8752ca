// Rows of a table on their way out of it.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_EXPORTED_ROWS_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_EXPORTED_ROWS_H_

#include <cstdint>
#include <vector>

#include "ops/core/table/rule_state.h"

namespace keras_sparse {

// Some rows of a table, caught up, so that they need no history to be read.
struct ExportedRows {
  // Appends the row of a record that lies in a tier.
  void Append(int64_t key, const float* record, const RuleState& rule_state);

  int64_t record_floats = 0;   // width of a record
  std::vector<int64_t> keys;   // (n)
  std::vector<float> records;  // (n, record_floats): row, then slots
  std::vector<uint32_t> ages;  // (n), see EvictionPolicy; none if the table does not keep them
  std::vector<uint32_t> frequencies;  // (n), see RecordLayout; likewise
  int64_t next_cursor = -1;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_EXPORTED_ROWS_H_
