// Applies missed steps to records in a GPU's memory. Included by the rules' .cu files through
// update_kernel.h.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_MOVE_KERNEL_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_MOVE_KERNEL_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "ops/core/device/device_code.h"
#include "ops/core/device/device_floats.h"
#include "ops/core/device/device_requests.h"
#include "ops/core/optimizer/element.h"
#include "ops/core/optimizer/history_view.h"
#include "ops/core/optimizer/moves.h"
#include "ops/core/optimizer/update_launch.h"

namespace keras_sparse::cuda_impl {

// The row and the slots of a column, or of kFloats neighbouring columns.
template <int kFloats, size_t kSlots>
struct ColumnFloats {
  Floats<kFloats> parts[kSlots + 1];

  __device__ void LoadFrom(const RecordFormat& format, const float* record, int64_t column) {
    for (size_t i = 0; i <= kSlots; ++i) {
      const int part = static_cast<int>(i);
      parts[i] = LoadAny<kFloats>(format.TypeOf(part), record + format.WordOf(part), column);
    }
  }
  // Rounds the floats as PackRecord does.
  //   bits  of the record
  __device__ void StoreTo(const RecordFormat& format, const RandomBits& bits, float* record,
                          int64_t column) const {
    const Rounding& rounding = format.rounding.rounding;
    for (size_t i = 0; i <= kSlots; ++i) {
      const int part = static_cast<int>(i);
      const FloatType type = format.TypeOf(part);
      void* to = reinterpret_cast<char*>(record + format.WordOf(part)) + column * FloatBytes(type);
      if (rounding.is_random) {
        StoreRandomly(type, parts[i], bits,
                      rounding.FirstElement(part) + static_cast<uint32_t>(column), to);
      } else {
        Store(type, parts[i], to);
      }
    }
  }
};

template <typename Columns, typename... Slots>
__device__ float MoveColumn(const Columns& columns, float row, Slots... slots) {
  if constexpr (kHasUnusual<Columns>) {
    if (!columns.IsUsual(row, slots...)) {
      return columns.Found(columns.Find(row, slots...), row, slots...);
    }
  }
  return columns(row, slots...);
}

template <int kFloats>
__device__ void Shrink(float factor, Floats<kFloats>* slot) {
  for (int f = 0; f < kFloats; ++f) slot->at[f] *= factor;
}

// Applies the steps after `first` to some columns of a record that is as of `first`, as
// CatchUpRecord does.
template <int kFloats, typename Moves, size_t... kSlots>
__device__ void CatchUpColumns(const HistoryView& history, const Moves& moves, int64_t first,
                               ColumnFloats<kFloats, sizeof...(kSlots)>* columns,
                               std::index_sequence<kSlots...> /*slots*/) {
  Floats<kFloats>* parts = columns->parts;
  for (int64_t from = first; from < history.step;) {
    const Missed missed = history.After(first, from);
    const auto of_piece = moves.Of(history, missed);
    for (int f = 0; f < kFloats; ++f) {
      parts[0].at[f] = MoveColumn(of_piece, parts[0].at[f], parts[kSlots + 1].at[f]...);
    }
    (Shrink(static_cast<float>(history.slot_decays[kSlots](missed.to - from)), &parts[kSlots + 1]),
     ...);
    from = missed.to;
  }
}

// Returns the step that a record is as of. Only one lane reads it, because one lane writes it
// afterwards.
template <int kLanes>
__device__ int64_t FirstOf(const HistoryView& history, const float* record) {
  using T = Tile<kLanes>;
  if (history.last_word < 0) return history.step;
  return T::FromLane(T::Lane() == 0 ? history.StepOf(record) : 0, 0);
}

template <typename Element, int kLanes, int kFloats>
__global__ void MoveKernel(MoveWork work, Element element) {
  using T = Tile<kLanes>;
  constexpr auto kSlots = std::make_index_sequence<Element::kSlots>();
  const auto moves = MovesOf<Element>::From(element);
  for (int64_t i = T::Number(); i < work.n; i += T::Count()) {
    const int64_t row = work.rows == nullptr ? i : int64_t{work.rows[i]};
    if (row >= work.records.num_rows) continue;
    float* record = work.records.Record(static_cast<uint32_t>(row));
    const int64_t first = FirstOf<kLanes>(work.history, record);
    if (first == work.history.step && work.moved == nullptr) continue;
    const RecordFormat& format = work.format;
    const RandomBits bits = format.rounding.Of(static_cast<uint32_t>(row));
    for (int64_t column = int64_t{T::Lane()} * kFloats; column < work.dim;
         column += kLanes * kFloats) {
      ColumnFloats<kFloats, Element::kSlots> columns;
      columns.LoadFrom(format, record, column);
      CatchUpColumns<kFloats>(work.history, moves, first, &columns, kSlots);
      if (work.moved == nullptr) {
        columns.StoreTo(format, bits, record, column);
      } else {
        const FloatType type = format.types.row;
        Store(type, columns.parts[0],
              static_cast<char*>(work.moved) + (i * work.dim + column) * FloatBytes(type));
      }
    }
    if (work.moved == nullptr && T::Lane() == 0) work.history.SetCurrent(record);
  }
}

template <typename Element>
Status LaunchMove(const MoveLaunch& launch, Device* device) {
  const Element element = dynamic_cast<const ElementSource<Element>*>(launch.rule)->element();
  const MoveWork& work = launch.work;
  const bool has_vectors =
      work.format.HasVectors() && HasVectors(work.moved, work.dim, work.dim, work.format.types.row);
  const bool is_wide = LanesOfRecord(work.dim, has_vectors ? kMaxLaneFloats : 1) > kFewLanes;
  void (*kernel)(MoveWork, Element);
  if (has_vectors) {
    kernel = is_wide ? MoveKernel<Element, kWarp, kMaxLaneFloats>
                     : MoveKernel<Element, kFewLanes, kMaxLaneFloats>;
  } else {
    kernel = is_wide ? MoveKernel<Element, kWarp, 1> : MoveKernel<Element, kFewLanes, 1>;
  }
  Launch(kernel, BlocksFor(*device, work.n, is_wide ? kWarp : kFewLanes), kBlock, device->stream(),
         work, element);
  return Status::Ok();
}

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_MOVE_KERNEL_H_
