#include "ops/core/table/table_state.h"

#include <memory>
#include <string>
#include <utility>

#include "ops/core/table/table_cursor.h"

namespace keras_sparse {

Status TableState::Open(Executor* executor) {
  std::unique_ptr<Initializer> initializer;
  KERAS_SPARSE_RETURN_IF_ERROR(Initializer::Create(options.initializer, &initializer));
  gate.SetInitializer(std::move(initializer));
  return tiers.Open(layout(), gate.initializer(), executor);
}

Status TableState::CheckKeys(const int64_t* keys, int64_t n) const {
  const OwnedKeys owned = options.owned_keys();
  for (int64_t i = 0; i < n; ++i) {
    if (!owned.Hold(keys[i])) return owned.Refuse(options.name, "keys", i, keys[i]);
  }
  return Status::Ok();
}

Status TableState::CheckRecords(const float* records, int64_t n, int64_t width) const {
  const RecordLayout& layout = rule().float_layout();
  const int64_t dim = options.output_dim;
  const int64_t words = layout.record_words();
  if (width == dim || width == layout.record_floats()) return Status::Ok();
  if (width != words) {
    const bool has_steps = words > layout.record_floats();
    return InvalidArgument(
        "`records` of table '" + options.name + "' must be " + std::to_string(dim) +
        " wide (rows) or " + std::to_string(layout.record_floats()) + " (rows and slots of rule '" +
        rule().name() + "')" +
        (has_steps ? " or " + std::to_string(words) + " (their steps too)" : "") +
        ". Received: " + std::to_string(width));
  }
  for (int64_t i = 0; i < n; ++i) {
    const float* record = records + i * width;
    if (!rule().RemembersLastStep(layout, record)) return rule().ForgottenStep(layout, record, i);
  }
  return Status::Ok();
}

int64_t TableState::FirstCursor() const {
  const bool is_on_gpu = tiers.hbm_store() != nullptr && tiers.first_tier().num_rows() == 0;
  return MakeCursor(version, is_on_gpu ? 1 : 0, 0);
}

Status TableState::CheckCursor(int64_t cursor) const {
  if (cursor == 0 || (cursor >> kCursorVersionShift) == (version & kCursorVersionMask)) {
    return Status::Ok();
  }
  return FailedPrecondition("table '" + options.name +
                            "' must not change while it is exported; export again");
}

// The history is bounded first, by a walk over all rows. After demoting, this walk would read and
// write the demoted rows once more.
Status TableState::BeginChange(Executor* executor) {
  if (Device* gpu = options.storage.device.get(); gpu != nullptr) {
    KERAS_SPARSE_RETURN_IF_ERROR(gpu->CheckWorks());
  }
  if (!is_unfinished) return Status::Ok();
  CountChange();  // rows may move even if the change is rejected
  KERAS_SPARSE_RETURN_IF_ERROR(rule_state.BoundHistory(rounding().OfCatchUp(), &tiers, executor));
  KERAS_SPARSE_RETURN_IF_ERROR(tiers.DemoteExcess(executor));
  KERAS_SPARSE_RETURN_IF_ERROR(tiers.CheckMemory());
  is_unfinished = false;
  return Status::Ok();
}

// Never fails: the change is applied. If a lower tier is full or unavailable, the next BeginChange
// retries and returns the error. Until then the table keeps all its rows, too many of them in
// memory.
void TableState::FinishChange(Executor* executor) {
  tiers.SeeFirstTierBytes();
  const Status bounded = rule_state.BoundHistory(rounding().OfCatchUp(), &tiers, executor);
  const Status demoted = tiers.DemoteExcess(executor);
  is_unfinished = !bounded.ok() || !demoted.ok() || !tiers.CheckMemory().ok();
}

}  // namespace keras_sparse
