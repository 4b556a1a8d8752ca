// SetRule: the optimizer that a table is laid out for.
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

// What a rule has made of the records.
struct RuleLayout {
  // How often SetRule has been called. An update names the generation that it was made for
  // (ApplyRequest), so that none takes for its own the slots that a later SetRule has laid out.
  int64_t generation = 0;
  std::vector<std::string> slot_names;  // in the order of the record
  int64_t record_floats = 0;
};

// Lays the records out for a rule of ops/core/optimizer/rules. Rows stay, all slots get their
// initial values, and the rule's steps begin anew. Lower tiers are written anew beside the old
// ones, which takes their room twice.
//   rule    its dim is the table's, whatever it says
//   layout  may be null
Status SetRule(EmbeddingTable* table, const RuleOptions& rule, Executor* executor,
               RuleLayout* layout = nullptr);

int64_t RuleGenerationOf(const EmbeddingTable& table);
// What the rule was given in the steps that rows may have missed.
RuleHistory HistoryOf(const EmbeddingTable& table);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_SET_RULE_H_
