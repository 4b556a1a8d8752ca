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

// Calls body(0), body(1), ... with constants, so that the elements of arrays stay in registers.
template <typename Body, size_t... kNumbers>
__device__ void ForEach(std::index_sequence<kNumbers...> /*numbers*/, const Body& body) {
  (body(std::integral_constant<size_t, kNumbers>()), ...);
}

// The most pieces of a record, of kFloats columns a lane, that a tile holds with their gradients.
// An element that uses the mean square holds more, so as not to sum the gradients twice.
template <typename Element>
constexpr size_t kMostPieces = 1;

// A tile updates one record, kPieces at a time: it applies missed steps, then the step of its
// gradient.
template <typename Element, int kLanes, int kFloats, size_t kPieces>
__device__ void UpdateRecord(const SegmentsView& view, int request, const Segment& segment,
                             const Element& element, const UpdateTable& table, uint32_t row) {
  using T = Tile<kLanes>;
  constexpr int64_t kColumnsOfPiece = kLanes * kFloats;
  constexpr int64_t kColumns = kColumnsOfPiece * static_cast<int64_t>(kPieces);
  constexpr auto kSlots = std::make_index_sequence<Element::kSlots>();
  const HistoryView& history = table.history;
  const RecordFormat& format = table.format;
  float* record = table.records.Record(row);
  const RandomBits bits = format.rounding.Of(row);
  const int64_t dim = view.requests[request].gradient.dim;
  const auto moves = MovesOf<Element>::From(element);
  const int64_t first_step = FirstOf<kLanes>(history, record);
  // Updates kColumns columns by what element_of(gradients) returns.
  const auto update_columns = [&](int64_t first, const auto& element_of) {
    ColumnFloats<kFloats, Element::kSlots> columns[kPieces];
    Floats<kFloats> gradients[kPieces] = {};
    const auto for_each_piece = [&](const auto& body) {
      ForEach(std::make_index_sequence<kPieces>(), [&](auto piece) {
        constexpr size_t kPiece = decltype(piece)::value;
        const int64_t column = first + kPiece * kColumnsOfPiece + T::Lane() * kFloats;
        if (column < dim) body(column, &columns[kPiece], &gradients[kPiece]);
      });
    };
    for_each_piece([&](int64_t column, auto* piece, Floats<kFloats>* gradient) {
      piece->LoadFrom(format, record, column);  // loads while gradients are summed
      *gradient = SumSegment<kFloats>(view, request, segment, column);
    });
    const auto& column_element = element_of(gradients);
    for_each_piece([&](int64_t column, auto* piece, const Floats<kFloats>* gradient) {
      CatchUpColumns<kFloats>(history, moves, first_step, piece, kSlots);
      UpdateColumns<kFloats>(column_element, *gradient, piece, kSlots);
      piece->StoreTo(format, bits, record, column);
    });
  };
  if constexpr (Element::kRowSlots == 0) {
    for (int64_t first = 0; first < dim; first += kColumns) {
      update_columns(first, [&](const auto&) -> const Element& { return element; });
    }
  } else {
    float* slot = record + format.WordOf(1 + Element::kSlots);
    // One lane reads and writes the slot; the others get the value from it.
    float value = T::FromLane(T::Lane() == 0 ? *slot : 0, 0);
    const auto none = [] { return 0.0f; };
    decltype(element.OfRow(none, &value)) of_row{};
    for (int64_t first = 0; first < dim; first += kColumns) {
      update_columns(first, [&](const auto& gradients) -> const auto& {
        const auto mean_square = [&] {
          const float sum = kPieces < kMostPieces<Element> || dim <= kColumns
                                ? SumOfSquares<kLanes>(gradients)
                                : TileSum<kLanes>(
                                      dim,
                                      [&](int64_t column) {
                                        const float g =
                                            SumSegment<1>(view, request, segment, column).at[0];
                                        return g * g;
                                      });
          return sum / static_cast<float>(dim);
        };
        if (first == 0) of_row = element.OfRow(mean_square, &value);
        return of_row;
      });
    }
    if (T::Lane() == 0) *slot = value;
  }
}

template <typename Element, int kLanes, int kFloats, size_t kPieces>
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
    UpdateRecord<Element, kLanes, kFloats, kPieces>(view, r, segment, elements[r], table, row);
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
  const bool is_wide = launch.dim > int64_t{kWarp} * launch.lane_floats;
  if (launch.lane_floats == 1) {
    kernel = is_wide          ? UpdateKernel<Element, kWarp, 1, kMostPieces<Element>>
             : lanes == kWarp ? UpdateKernel<Element, kWarp, 1, 1>
                              : UpdateKernel<Element, kFewLanes, 1, 1>;
  } else if (lanes == kWarp) {
    kernel = is_wide ? UpdateKernel<Element, kWarp, kMaxLaneFloats, kMostPieces<Element>>
                     : UpdateKernel<Element, kWarp, kMaxLaneFloats, 1>;
  } else {
    kernel = lanes == kHalfWarp ? UpdateKernel<Element, kHalfWarp, kMaxLaneFloats, 1>
                                : UpdateKernel<Element, kFewLanes, kMaxLaneFloats, 1>;
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
