// ExportedRows: copies of a table's rows on their way out of the table.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_EXPORTED_ROWS_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_EXPORTED_ROWS_H_

#include <cstdint>
#include <vector>

#include "ops/core/table/rule_state.h"

namespace keras_sparse {

// Copies of rows with all missed steps applied, so that reading them needs no history.
struct ExportedRows {
  // Appends the row of a tier's record.
  void Append(int64_t key, const float* record, const RuleState& rule_state);

  int64_t record_floats = 0;   // width of a record
  std::vector<int64_t> keys;   // (n)
  std::vector<float> records;  // (n, record_floats): row, then slots
  std::vector<uint32_t> ages;  // (n), see EvictionPolicy; empty if the table does not keep ages
  std::vector<uint32_t> frequencies;  // (n), see RecordLayout; empty if not kept
  int64_t next_cursor = -1;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_EXPORTED_ROWS_H_
