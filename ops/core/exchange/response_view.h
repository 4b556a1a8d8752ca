// ResponseView: reply rows in a GPU's memory.
#ifndef KERAS_SPARSE_OPS_CORE_EXCHANGE_RESPONSE_VIEW_H_
#define KERAS_SPARSE_OPS_CORE_EXCHANGE_RESPONSE_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/core/device/device_array.h"
#include "ops/core/device/device_floats.h"
#include "ops/core/device/device_requests.h"
#include "ops/core/exchange/response_rows.h"

namespace keras_sparse::cuda_impl {

// ResponseColumns as kernels see them.
struct ResponseView {
  int64_t first_column;
  int64_t num_columns;
  // Whether lanes can load kMaxLaneFloats of a row, and store them in an output's row from
  // `first_column` on.
  bool has_vectors;
  int num_runs;
  const ResponseRun* runs;  // (num_runs)

  __device__ const ResponseRun& Run(int64_t row) const { return RunOf(runs, num_runs, row); }
};

// The views of all tables.
class ResponsesOnDevice {
 public:
  //   columns  of rows in the GPU's memory, as ResponseRows returns them
  static Status Copy(const std::vector<std::vector<ResponseColumns>>& columns, Device* device,
                     ResponsesOnDevice* replies) {
    std::vector<ResponseRun> runs;
    for (const std::vector<ResponseColumns>& table : columns) {
      for (const ResponseColumns& each : table) {
        runs.insert(runs.end(), each.runs.begin(), each.runs.end());
      }
    }
    KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<ResponseRun>::Copy(device, runs, &replies->runs_));
    const ResponseRun* next = replies->runs_.data();
    for (const std::vector<ResponseColumns>& table : columns) {
      replies->views_.emplace_back();
      for (const ResponseColumns& each : table) {
        const auto num_runs = static_cast<int>(each.runs.size());
        replies->views_.back().push_back(
            {each.first_column, each.num_columns, HaveVectors(each), num_runs, next});
        next += num_runs;
      }
    }
    return Status::Ok();
  }

  // Returns one view for each piece of a table's columns.
  const std::vector<ResponseView>& views(size_t table) const { return views_[table]; }

 private:
  static bool HaveVectors(const ResponseColumns& columns) {
    bool have = columns.first_column % kMaxLaneFloats == 0;
    for (const ResponseRun& run : columns.runs) {
      have = have && HasVectors(run.data, columns.num_columns, columns.num_columns, run.type);
    }
    return have;
  }

  DeviceArray<ResponseRun> runs_;
  std::vector<std::vector<ResponseView>> views_;
};

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_EXCHANGE_RESPONSE_VIEW_H_
