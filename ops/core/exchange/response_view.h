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
  FloatType type;
  // Whether lanes can load kMaxLaneFloats of a row, and store them in an output's row from
  // `first_column` on.
  bool has_vectors;
  int num_runs;
  const int64_t* first_rows;  // (num_runs)
  void* const* runs;          // (num_runs)

  __device__ char* Row(int64_t row) const {
    const int64_t run = num_runs > 1 ? LastAtMost(first_rows, int64_t{num_runs}, row) : 0;
    return static_cast<char*>(runs[run]) + (row - first_rows[run]) * num_columns * FloatBytes(type);
  }
};

// The views of all tables.
class ResponsesOnDevice {
 public:
  //   columns  of rows in the GPU's memory, as ResponseRows returns them
  static Status Copy(const std::vector<std::vector<ResponseColumns>>& columns, Device* device,
                     ResponsesOnDevice* replies) {
    std::vector<int64_t> first_rows;
    std::vector<void*> runs;
    for (const std::vector<ResponseColumns>& table : columns) {
      for (const ResponseColumns& each : table) {
        first_rows.insert(first_rows.end(), each.first_rows.begin(), each.first_rows.end());
        runs.insert(runs.end(), each.runs.begin(), each.runs.end());
      }
    }
    KERAS_SPARSE_RETURN_IF_ERROR(
        DeviceArray<int64_t>::Copy(device, first_rows, &replies->first_rows_));
    KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<void*>::Copy(device, runs, &replies->runs_));
    const int64_t* next_rows = replies->first_rows_.data();
    void* const* next_runs = replies->runs_.data();
    for (const std::vector<ResponseColumns>& table : columns) {
      replies->views_.emplace_back();
      for (const ResponseColumns& each : table) {
        const auto num_runs = static_cast<int>(each.runs.size());
        replies->views_.back().push_back({each.first_column, each.num_columns, each.type,
                                          HaveVectors(each), num_runs, next_rows, next_runs});
        next_rows += num_runs;
        next_runs += num_runs;
      }
    }
    return Status::Ok();
  }

  // Returns one view for each piece of a table's columns.
  const std::vector<ResponseView>& views(size_t table) const { return views_[table]; }

 private:
  static bool HaveVectors(const ResponseColumns& columns) {
    bool have = columns.first_column % kMaxLaneFloats == 0;
    for (const void* run : columns.runs) {
      have = have && HasVectors(run, columns.num_columns, columns.num_columns, columns.type);
    }
    return have;
  }

  DeviceArray<int64_t> first_rows_;
  DeviceArray<void*> runs_;
  std::vector<std::vector<ResponseView>> views_;
};

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_EXCHANGE_RESPONSE_VIEW_H_
