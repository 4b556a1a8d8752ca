// RuleKernels: the kernels that update and move the records of a rule.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_UPDATE_LAUNCH_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_UPDATE_LAUNCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ops/core/base/host_device.h"
#include "ops/core/base/status.h"
#include "ops/core/device/device.h"
#include "ops/core/device/device_floats.h"
#include "ops/core/gradients/row_segments.h"
#include "ops/core/optimizer/history_view.h"
#include "ops/core/optimizer/update_rule.h"
#include "ops/core/record/record_format.h"
#include "ops/core/record/record_layout.h"
#include "ops/core/record/records_view.h"

namespace keras_sparse::cuda_impl {

// The words of an updated record: see RecordLayout.
struct RecordWords {
  int64_t last_word = -1;  // positions in the record; negative if it has no such word
  int64_t gradient_word = -1;
  int64_t frequency_word = -1;
  uint32_t last = 0;
  uint32_t gradient = 0;

  KERAS_SPARSE_HOST_DEVICE void Write(float* record) const {
    auto* words = reinterpret_cast<uint32_t*>(record);
    if (last_word >= 0) words[last_word] = last;
    if (gradient_word >= 0) words[gradient_word] = gradient;
    if (frequency_word >= 0 && words[frequency_word] != UINT32_MAX) ++words[frequency_word];
  }
};

struct UpdateTable {
  RecordsView records;
  RecordWords words;
  HistoryView history;  // on the device: records catch up on missed steps first
  RecordFormat format;
};

// An update of tables whose rules have the same class, and whose rows have the same dim.
struct UpdateLaunch {
  std::vector<const UpdateRule*> rules;  // of each request of the segments; its step has begun
  const UpdateTable* tables;             // of each request of the segments, on the device
  SegmentsView segments;
  int64_t num_ids;
  const uint32_t* any_refused;  // (1) on the device: if nonzero, nothing is updated
  int64_t dim;
  int lane_floats;  // neighbouring columns that a lane processes at once
};

// Records that catch up on missed steps. All memory is the device's.
struct MoveWork {
  RecordsView records;
  const uint32_t* rows;  // (n) or null for the first n; numbers beyond the records are skipped
  int64_t n;
  void* moved;  // (n, dim) of the rows' type: receives current values; null to change the records
  HistoryView history;
  int64_t dim;
  RecordFormat format;
};

struct MoveLaunch {
  const UpdateRule* rule;
  MoveWork work;
};

// Both enqueue work on the device.
struct RuleKernels {
  Status (*update)(const UpdateLaunch& launch, Device* device) = nullptr;
  Status (*move)(const MoveLaunch& launch, Device* device) = nullptr;
};

bool RegisterKernels(const std::string& rule, const RuleKernels& kernels);

// Returns Unimplemented if the rule has no kernels.
Status FindKernels(const std::string& rule, RuleKernels* kernels);

// Lanes per record: few widths, so that a rule has few kernels.
constexpr int kFewLanes = 8;
constexpr int kHalfWarp = kWarp / 2;
inline int LanesOfRecord(int64_t dim, int lane_floats) {
  const int lanes = LanesOf(dim, lane_floats);
  if (lanes <= kFewLanes) return kFewLanes;
  return lanes == kHalfWarp && lane_floats > 1 ? kHalfWarp : kWarp;
}

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_UPDATE_LAUNCH_H_
