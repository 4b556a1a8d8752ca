// Updates records in a GPU's memory, for all rules. Included by the rules' .cu files.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_UPDATE_KERNEL_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_UPDATE_KERNEL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ops/core/device/device_array.h"
#include "ops/core/device/device_code.h"
#include "ops/core/device/device_floats.h"
#include "ops/core/device/device_requests.h"
#include "ops/core/device/tile_sum.h"
#include "ops/core/gradients/segment_sum.h"
#include "ops/core/optimizer/element.h"
#include "ops/core/optimizer/history_view.h"
#include "ops/core/optimizer/move_kernel.h"
#include "ops/core/optimizer/moves.h"
#include "ops/core/optimizer/update_launch.h"

namespace keras_sparse::cuda_impl {

// Updates columns with the gradient of a step.
template <int kFloats, typename ColumnElement, size_t... kSlots>
__device__ void UpdateColumns(const ColumnElement& element, const Floats<kFloats>& gradient,
                              ColumnFloats<kFloats, sizeof...(kSlots)>* columns,
                              std::index_sequence<kSlots...> /*slots*/) {
  Floats<kFloats>* parts = columns->parts;
  for (int f = 0; f < kFloats; ++f) {
    element(gradient.at[f], &parts[0].at[f], &parts[kSlots + 1].at[f]...);
  }
}

// A tile updates one record: it applies missed steps, then the step of its gradient. Each gradient
// is summed when it is needed.
template <typename Element, int kLanes, int kFloats>
__device__ void UpdateRecord(const SegmentsView& view, int request, const Segment& segment,
                             const Element& element, const UpdateTable& table, uint32_t row) {
  using T = Tile<kLanes>;
  const HistoryView& history = table.history;
  const RecordFormat& format = table.format;
  float* record = table.records.Record(row);
  const RandomBits bits = format.rounding.Of(row);
  constexpr auto kSlots = std::make_index_sequence<Element::kSlots>();
  const int64_t dim = view.requests[request].gradient.dim;
  const auto moves = MovesOf<Element>::From(element);
  const int64_t first = FirstOf<kLanes>(history, record);
  const auto update_columns = [&](const auto& column_element) {
    for (int64_t column = int64_t{T::Lane()} * kFloats; column < dim; column += kLanes * kFloats) {
      ColumnFloats<kFloats, Element::kSlots> columns;
      columns.LoadFrom(format, record, column);  // loads while gradients are summed
      const auto gradient = SumSegment<kFloats>(view, request, segment, column);
      CatchUpColumns<kFloats>(history, moves, first, &columns, kSlots);
      UpdateColumns<kFloats>(column_element, gradient, &columns, kSlots);
      columns.StoreTo(format, bits, record, column);
    }
  };
  if constexpr (Element::kRowSlots == 0) {
    update_columns(element);
  } else {
    float* slot = record + format.WordOf(1 + Element::kSlots);
    const auto mean_square = [&] {
      const float sum = TileSum<kLanes>(dim, [&](int64_t column) {
        const float g = SumSegment<1>(view, request, segment, column).at[0];
        return g * g;
      });
      return sum / static_cast<float>(dim);
    };
    // One lane reads and writes the slot; the others get the value from it.
    float value = T::FromLane(T::Lane() == 0 ? *slot : 0, 0);
    update_columns(element.OfRow(mean_square, &value));
    if (T::Lane() == 0) *slot = value;
  }
}

template <typename Element, int kLanes, int kFloats>
__global__ void UpdateKernel(SegmentsView view, const UpdateTable* tables, const Element* elements,
                             const uint32_t* any_refused) {
  using T = Tile<kLanes>;
  if (*any_refused != 0) return;
  const int64_t num_segments = *view.num_segments;
  for (int64_t i = T::Number(); i < num_segments; i += T::Count()) {
    const Segment segment = SegmentAt(view, i);
    const int r = RequestOf(view, segment.row);
    if (r == view.num_requests) continue;
    const UpdateTable& table = tables[r];
    const auto row = static_cast<uint32_t>(segment.row - view.first_rows[r]);
    UpdateRecord<Element, kLanes, kFloats>(view, r, segment, elements[r], table, row);
    if (T::Lane() == 0) table.words.Write(table.records.Record(row));
  }
}

// Launches the update of all segments.
template <typename Element>
Status LaunchUpdate(const UpdateLaunch& launch, Device* device) {
  std::vector<Element> elements;
  for (const UpdateRule* rule : launch.rules) {
    elements.push_back(dynamic_cast<const ElementSource<Element>*>(rule)->element());
  }
  DeviceArray<Element> on_device;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<Element>::Copy(device, elements, &on_device));
  const int lanes = LanesOfRecord(launch.dim, launch.lane_floats);
  void (*kernel)(SegmentsView, const UpdateTable*, const Element*, const uint32_t*);
  if (launch.lane_floats == 1) {
    kernel = lanes == kWarp ? UpdateKernel<Element, kWarp, 1> : UpdateKernel<Element, kFewLanes, 1>;
  } else if (lanes == kWarp) {
    kernel = UpdateKernel<Element, kWarp, kMaxLaneFloats>;
  } else {
    kernel = lanes == kHalfWarp ? UpdateKernel<Element, kHalfWarp, kMaxLaneFloats>
                                : UpdateKernel<Element, kFewLanes, kMaxLaneFloats>;
  }
  // At most one segment per id: only the device knows how many there are.
  Launch(kernel, BlocksFor(*device, launch.num_ids, lanes), kBlock, device->stream(),
         launch.segments, launch.tables, on_device.data(), launch.any_refused);
  return Status::Ok();
}

// Calls launch(element) for the one of several elements that the rule has; the element is null.
template <typename Element, typename... Others, typename LaunchOf>
Status LaunchOfAny(const UpdateRule* rule, const LaunchOf& launch) {
  if constexpr (sizeof...(Others) > 0) {
    const bool has_it = dynamic_cast<const ElementSource<Element>*>(rule) != nullptr;
    if (!has_it) return LaunchOfAny<Others...>(rule, launch);
  }
  return launch(static_cast<Element*>(nullptr));
}

// Called in the file of a rule, for each of its names.
template <typename... Elements>
bool RegisterKernelsOf(const std::string& rule) {
  RuleKernels kernels;
  kernels.update = [](const UpdateLaunch& launch, Device* device) {
    return LaunchOfAny<Elements...>(launch.rules[0], [&](auto* element) {
      return LaunchUpdate<std::remove_pointer_t<decltype(element)>>(launch, device);
    });
  };
  kernels.move = [](const MoveLaunch& launch, Device* device) {
    return LaunchOfAny<Elements...>(launch.rule, [&](auto* element) {
      return LaunchMove<std::remove_pointer_t<decltype(element)>>(launch, device);
    });
  };
  return RegisterKernels(rule, kernels);
}

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_UPDATE_KERNEL_H_
