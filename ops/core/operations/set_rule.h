// SetRule: sets the optimizer rule that a table's records are laid out for.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_SET_RULE_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_SET_RULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/optimizer/update_history.h"
#include "ops/core/optimizer/update_rule.h"
#include "ops/core/table/embedding_table.h"

namespace keras_sparse {

// The layout of the records for a rule.
struct RuleLayout {
  // Number of calls of SetRule. An update names its generation (ApplyRequest), so that it never
  // uses slots that a later SetRule has laid out.
  int64_t generation = 0;
  std::vector<std::string> slot_names;  // in the order of the record
  int64_t record_floats = 0;
};

// Lays the records out for a rule of ops/core/optimizer/rules. Rows stay, all slots get their
// initial values, and the rule's steps restart. Lower tiers are rewritten beside the old ones,
// which needs twice their space.
//   rule    its dim is ignored; the table's is used
//   layout  may be null
Status SetRule(EmbeddingTable* table, const RuleOptions& rule, Executor* executor,
               RuleLayout* layout = nullptr);

int64_t RuleGenerationOf(const EmbeddingTable& table);
// Returns the numbers of the rule in the steps that rows may have missed.
RuleHistory HistoryOf(const EmbeddingTable& table);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_SET_RULE_H_
