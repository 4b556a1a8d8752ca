#include "ops/core/operations/set_rule.h"

#include <memory>
#include <utility>

#include "ops/core/table/table_locks.h"

namespace keras_sparse {

Status SetRule(EmbeddingTable* table, const RuleOptions& rule, Executor* executor,
               RuleLayout* layout) {
  RuleOptions options = rule;
  options.dim = table->dim();
  options.keeps = table->options().keeps;
  options.types = table->options().types;
  std::unique_ptr<UpdateRule> created;
  KERAS_SPARSE_RETURN_IF_ERROR(UpdateRule::Create(options, &created));
  const WriteLocks locks({table});
  TableState& state = locks[0];
  ++state.version;  // records may move even if the rule is rejected
  KERAS_SPARSE_RETURN_IF_ERROR(state.tiers.CheckStaticSize(created->layout()));
  // Missed steps are applied first, so that rows keep their current values: rounded to the nearest,
  // as lookups read them.
  KERAS_SPARSE_RETURN_IF_ERROR(state.rule_state.CatchUpAll(Rounding(), &state.tiers, executor));
  KERAS_SPARSE_RETURN_IF_ERROR(
      state.tiers.Relayout(state.layout(), created->layout(), created->step(), executor));
  state.rule_state.Set(std::move(created));
  if (layout != nullptr) {
    *layout = {state.rule_state.generation(), {}, state.layout().record_floats()};
    for (const Slot& slot : state.layout().slots()) layout->slot_names.push_back(slot.name);
  }
  state.FinishChange(executor);
  return Status::Ok();
}

int64_t RuleGenerationOf(const EmbeddingTable& table) {
  const ReadLocks locks({&table});
  return locks[0].rule_state.generation();
}

RuleHistory HistoryOf(const EmbeddingTable& table) {
  const ReadLocks locks({&table});
  return locks[0].rule_state.history();
}

}  // namespace keras_sparse
