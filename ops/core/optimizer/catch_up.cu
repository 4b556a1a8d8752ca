#include "ops/core/optimizer/catch_up.h"
#include "ops/core/optimizer/update_launch.h"

namespace keras_sparse::cuda_impl {
namespace {

Status Move(const UpdateRule& rule, const DeviceRounding& rounding, HistoryOnDevice* history,
            MoveWork work, Device* device) {
  RuleKernels kernels;
  KERAS_SPARSE_RETURN_IF_ERROR(FindKernels(rule.name(), &kernels));
  KERAS_SPARSE_RETURN_IF_ERROR(history->Follow(rule, device, &work.history));
  work.dim = rule.layout().dim();
  work.format = RecordFormat::Of(rule.layout(), rounding);
  return kernels.move({&rule, work}, device);
}

}  // namespace

Status ReadMovedRows(const UpdateRule& rule, HistoryOnDevice* history, const RecordsView& records,
                     const uint32_t* rows, int64_t n, void* moved, Device* device) {
  return Move(rule, {}, history, {records, rows, n, moved, {}, 0, {}}, device);
}

Status CatchUpRecords(const UpdateRule& rule, HistoryOnDevice* history, const RecordsView& records,
                      const uint32_t* rows, int64_t n, Device* device,
                      const DeviceRounding& rounding) {
  if (!rule.defers_moves()) return Status::Ok();
  return Move(rule, rounding, history, {records, rows, n, nullptr, {}, 0, {}}, device);
}

}  // namespace keras_sparse::cuda_impl
