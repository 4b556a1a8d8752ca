#include <algorithm>
#include <map>

#include "ops/core/device/device_array.h"
#include "ops/core/device/device_code.h"
#include "ops/core/device/device_floats.h"
#include "ops/core/device/device_requests.h"
#include "ops/core/exchange/inputs_on_device.h"
#include "ops/core/exchange/response_view.h"
#include "ops/core/exchange/return_gradients.h"
#include "ops/core/gradients/row_segments.h"
#include "ops/core/gradients/segment_sum.h"

namespace keras_sparse::cuda_impl {
namespace {

// Lanes that add the gradients of a reply row.
constexpr int kSumLanes = 8;
// Floats that a warp copies at a time.
constexpr int64_t kFloatsPerCopy = 1024;

// The destination of a table's gradients.
struct ReturnedTable {
  const ResponseView* replies;  // (num_replies) all of its columns
  int num_replies;
  bool has_vectors;  // in the replies, and in the outputs' gradients
};

// For a tile: computes some columns of a row's gradient.
template <int kFloats>
__device__ void ReturnColumns(const SegmentsView& view, int request, const Segment& segment,
                              float scale, const ResponseView& reply) {
  const int64_t number = int64_t{segment.row} - view.first_rows[request];
  const FloatType type = reply.Run(number).type;
  char* row = reply.Run(number).Row(number, reply.num_columns);
  for (int64_t column = int64_t{Tile<kSumLanes>::Lane()} * kFloats; column < reply.num_columns;
       column += kSumLanes * kFloats) {
    auto sum = SumSegment<kFloats>(view, request, segment, reply.first_column + column);
    for (int f = 0; f < kFloats; ++f) sum.at[f] *= scale;
    Store(type, sum, row + column * FloatBytes(type));
  }
}

//   tables  one per request of the view
__global__ void ReturnKernel(SegmentsView view, const ReturnedTable* tables, float scale) {
  using T = Tile<kSumLanes>;
  for (int64_t i = T::Number(); i < int64_t{*view.num_segments}; i += T::Count()) {
    const Segment segment = SegmentAt(view, i);
    const int request = RequestOf(view, segment.row);
    const ReturnedTable table = tables[request];
    for (int p = 0; p < table.num_replies; ++p) {
      const ResponseView reply = table.replies[p];
      if (table.has_vectors) {
        ReturnColumns<kMaxLaneFloats>(view, request, segment, scale, reply);
      } else {
        ReturnColumns<1>(view, request, segment, scale, reply);
      }
    }
  }
}

// The floats that a rank has sent of a part.
struct SentFloats {
  const void* from;
  float* to;
  int64_t num_floats;
};

__global__ void GatherKernel(Requests<SentFloats> sent, FloatType type) {
  using T = Tile<kWarp>;
  const Parts& parts = sent.parts;
  for (int64_t i = T::Number(); i < parts.size(); i += T::Count()) {
    const int r = parts.Find(i);
    const SentFloats floats = sent.requests[r];
    const int64_t begin = (i - parts.firsts[r]) * kFloatsPerCopy;
    const int64_t end =
        begin + kFloatsPerCopy < floats.num_floats ? begin + kFloatsPerCopy : floats.num_floats;
    for (int64_t at = begin + T::Lane(); at < end; at += kWarp) {
      floats.to[at] = LoadAny<1>(type, floats.from, at).at[0];
    }
  }
}

// The inputs of some tables of one width.
struct Group {
  std::vector<SegmentRequest> requests;
  std::vector<ReturnedTable> tables;  // of each request
  int64_t num_rows = 0;
  int64_t num_ids = 0;

  // Adds the inputs of a table, which share its rows, if they fit.
  bool Add(const std::vector<SegmentRequest>& inputs, const ReturnedTable& table) {
    int64_t ids = num_ids;
    for (const SegmentRequest& each : inputs) ids += each.gradient.bags.num_ids;
    const int64_t rows = num_rows + inputs[0].num_rows;
    if (!requests.empty() && (ids > RowSegments::kMost || rows >= RowSegments::kMost)) return false;
    num_ids = ids;
    num_rows = rows;
    requests.insert(requests.end(), inputs.begin(), inputs.end());
    tables.resize(requests.size(), table);
    return true;
  }
};

Status Return(Group* group, float scale, Device* device) {
  ArraysOnDevice replies;
  for (ReturnedTable& each : group->tables) replies.Add(&each.replies, each.num_replies);
  KERAS_SPARSE_RETURN_IF_ERROR(replies.Copy(device));
  DeviceArray<ReturnedTable> tables;
  RowSegments segments;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<ReturnedTable>::Copy(device, group->tables, &tables));
  KERAS_SPARSE_RETURN_IF_ERROR(RowSegments::Make(group->requests, device, &segments));
  Launch(ReturnKernel, BlocksFor(*device, segments.num_ids(), kSumLanes), kBlock, device->stream(),
         segments.view(), tables.data(), scale);
  return Status::Ok();
}

bool HaveVectors(const std::vector<ResponseView>& replies) {
  return std::all_of(replies.begin(), replies.end(),
                     [](const ResponseView& each) { return each.has_vectors; });
}

}  // namespace

Status ReturnGradients(const ExchangeLayout& layout, const ResponseRows& rows,
                       const std::vector<CombinedInput>& inputs,
                       const std::vector<GradientRows>& output_grads, float scale,
                       const std::vector<std::vector<ResponseColumns>>& columns, Device* device) {
  InputsOnDevice on_device;
  ResponsesOnDevice replies;
  KERAS_SPARSE_RETURN_IF_ERROR(on_device.Copy(inputs, device));
  KERAS_SPARSE_RETURN_IF_ERROR(ResponsesOnDevice::Copy(columns, device, &replies));
  std::map<int64_t, std::vector<Group>> by_dim;
  for (size_t t = 0; t < layout.tables.size(); ++t) {
    const int64_t dim = layout.tables[t].dim;
    const std::vector<ResponseView>& of_table = replies.views(t);
    ReturnedTable table = {of_table.data(), static_cast<int>(of_table.size()),
                           HaveVectors(of_table)};
    std::vector<SegmentRequest> of_inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].table != t) continue;
      const CombinedInput& input = on_device.inputs()[i];
      const GradientRows grads = output_grads[i].Of(dim);
      table.has_vectors =
          table.has_vectors && HasVectors(grads.data, grads.stride, dim, grads.type);
      of_inputs.push_back({{nullptr, input.bags, grads, dim},
                           input.positions,
                           rows.num_rows(t),
                           !of_inputs.empty()});
    }
    if (of_inputs.empty()) continue;
    std::vector<Group>& groups = by_dim[dim];
    if (groups.empty() || !groups.back().Add(of_inputs, table)) {
      groups.emplace_back().Add(of_inputs, table);
    }
  }
  for (auto& [dim, groups] : by_dim) {
    for (Group& group : groups) KERAS_SPARSE_RETURN_IF_ERROR(Return(&group, scale, device));
  }
  return Status::Ok();
}

Status GatherGradients(const ExchangeLayout& layout, const std::vector<const void*>& blocks,
                       FloatType type, const int64_t* served_rows, const std::vector<float*>& grads,
                       Device* device) {
  std::vector<SentFloats> sent;
  std::vector<int64_t> num_copies;
  std::vector<const char*> next;
  for (const void* block : blocks) next.push_back(static_cast<const char*>(block));
  for (size_t p = 0; p < layout.own_parts().size(); ++p) {
    float* to = grads[p];
    for (size_t r = 0; r < layout.num_ranks; ++r) {
      const int64_t n = *served_rows++ * layout.slice(layout.own_parts()[p]).num_columns;
      if (n == 0) continue;
      sent.push_back({next[r], to, n});
      num_copies.push_back((n + kFloatsPerCopy - 1) / kFloatsPerCopy);
      next[r] += n * FloatBytes(type);
      to += n;
    }
  }
  RequestsOnDevice<SentFloats> on_device;
  KERAS_SPARSE_RETURN_IF_ERROR(
      RequestsOnDevice<SentFloats>::Copy(device, sent, num_copies, &on_device));
  Launch(GatherKernel, BlocksFor(*device, on_device.size(), kWarp), kBlock, device->stream(),
         on_device.view(), type);
  return Status::Ok();
}

}  // namespace keras_sparse::cuda_impl
