#include "ops/core/table/exported_rows.h"

#include <cstddef>

namespace keras_sparse {

void ExportedRows::Append(int64_t key, const float* record, const RuleState& rule_state) {
  const RecordLayout& layout = rule_state.layout();
  keys.push_back(key);
  const size_t begin = records.size();
  // Includes the words behind the record, which catching up needs and which are dropped afterwards.
  records.resize(begin + static_cast<size_t>(rule_state.rule().float_layout().record_words()));
  rule_state.ReadFloats(record, records.data() + begin);
  if (layout.keeps_gradient_step()) ages.push_back(rule_state.AgeOf(record));
  if (layout.keeps_frequency()) frequencies.push_back(layout.Frequency(record));
  records.resize(begin + static_cast<size_t>(layout.record_floats()));
}

}  // namespace keras_sparse
