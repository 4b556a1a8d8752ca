// Applies missed steps to records on a CPU.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_MOVE_RECORD_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_MOVE_RECORD_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "ops/core/math/vector_math.h"
#include "ops/core/optimizer/history_view.h"
#include "ops/core/optimizer/moves.h"

namespace keras_sparse {

template <typename Columns, size_t... kSlots>
inline void MoveColumns(const Columns& columns, int64_t dim, const float* record, float* row,
                        std::index_sequence<kSlots...> /*slots*/) {
  for (int64_t j = 0; j < dim; ++j) {
    row[j] = columns(record[j], record[static_cast<int64_t>(kSlots + 1) * dim + j]...);
  }
}

template <typename Columns, size_t... kSlots>
inline bool HasUnusual(const Columns& columns, int64_t dim, const float* record,
                       std::index_sequence<kSlots...> /*slots*/) {
  int32_t count = 0;  // a counter, because the compiler does not vectorize a flag
  for (int64_t j = 0; j < dim; ++j) {
    const bool is_usual =
        columns.IsUsual(record[j], record[static_cast<int64_t>(kSlots + 1) * dim + j]...);
    count += static_cast<int32_t>(!is_usual);
  }
  return count > 0;
}

template <typename Columns, size_t... kSlots>
inline void MoveUnusual(const Columns& columns, int64_t dim, const float* record, float* row,
                        std::index_sequence<kSlots...> /*slots*/) {
  constexpr int64_t kChunk = 64;
  std::array<int64_t, kChunk> found;
  for (int64_t begin = 0; begin < dim; begin += kChunk) {
    const int64_t n = std::min(kChunk, dim - begin);
    const float* from = record + begin;
    for (int64_t i = 0; i < n; ++i) {
      found[static_cast<size_t>(i)] =
          columns.Find(from[i], from[static_cast<int64_t>(kSlots + 1) * dim + i]...);
    }
    for (int64_t i = 0; i < n; ++i) {
      row[begin + i] = columns.Found(found[static_cast<size_t>(i)], from[i],
                                     from[static_cast<int64_t>(kSlots + 1) * dim + i]...);
    }
  }
}

// Writes the row as it is after some missed steps. Not inlined, because tools/check_vector_code.py
// looks for this function.
//   row  (dim), may be the record's
template <int kSlots, typename Moves>
__attribute__((noinline)) static void MoveRow(const HistoryView& history, const Moves& moves,
                                              const Missed& missed, int64_t dim,
                                              const float* record, float* row) {
  constexpr auto kEach = std::make_index_sequence<kSlots>();
  const auto columns = moves.Of(history, missed);
  if constexpr (kHasUnusual<decltype(moves.Of(history, missed))>) {
    if (HasUnusual(columns, dim, record, kEach)) {
      MoveUnusual(columns, dim, record, row, kEach);
      return;
    }
  }
  MoveColumns(columns, dim, record, row, kEach);
}

// Applies the steps after `first` to a record that is as of `first`.
template <int kSlots, typename Moves>
void CatchUpRecord(const HistoryView& history, const Moves& moves, int64_t dim, int64_t first,
                   float* record) {
  for (int64_t from = first; from < history.step;) {
    const Missed missed = history.After(first, from);
    MoveRow<kSlots>(history, moves, missed, dim, record, record);
    float* slot = record + dim;
    for (int s = 0; s < kSlots; ++s, slot += dim) {
      const auto factor = static_cast<float>(history.slot_decays[s](missed.to - from));
      if (factor != 1) Scale(factor, dim, slot);
    }
    from = missed.to;
  }
  history.SetCurrent(record);
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_MOVE_RECORD_H_
