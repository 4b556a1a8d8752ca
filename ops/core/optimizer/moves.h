// Moves: the effect of steps without a gradient on a row, for CPU loops and GPU kernels alike.
//
// An element (ops/core/optimizer/element.h) defines this by `XMoves moves() const`; without it,
// only weight decay acts. Moves are a plain struct, called for each run of steps:
//
//     struct XMoves {
//       XColumns Of(const HistoryView& history, const Missed& missed) const;
//     };
//     struct XColumns {
//       // Returns one column of the row after the steps. Slots are as of missed.from.
//       float operator()(float row, float slot_0, float slot_1) const;
//     };
//
// Few columns need more than that; IsUsual finds them. All columns of a record with such a column
// are then moved in two loops, each of which a compiler vectorizes:
//
//     bool IsUsual(float row, float slot_0) const;
//     int64_t Find(float row, float slot_0) const;
//     float Found(int64_t found, float row, float slot_0) const;  // as operator() if usual
//
// Slots shrink after that: see HistoryView.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_MOVES_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_MOVES_H_

#include <type_traits>
#include <utility>

#include "ops/core/base/host_device.h"
#include "ops/core/optimizer/deferred_updates.h"
#include "ops/core/optimizer/history_view.h"

namespace keras_sparse {

// Moves by weight decay alone.
struct DecayColumns {
  float decay;

  template <typename... Slots>
  KERAS_SPARSE_HOST_DEVICE float operator()(float row, Slots... /*slots*/) const {
    return row - decay * row;
  }
};
struct DecayMoves {
  KERAS_SPARSE_HOST_DEVICE DecayColumns Of(const HistoryView& /*history*/,
                                           const Missed& missed) const {
    return {missed.decay};
  }
};

// Moves by momentum times the sum of the missed moves.
struct MomentumColumns {
  float decay;
  float moves;

  KERAS_SPARSE_HOST_DEVICE float operator()(float row, float momentum) const {
    return row - (decay * row + moves * momentum);
  }
};

// Moves by momentum over a scale that shrinks as momentum does: the next slot, or its root with
// kRoot.
template <bool kRoot>
struct ScaledColumns {
  float decay;
  float epsilon;
  DeferredUpdates::Piece moves;

  KERAS_SPARSE_HOST_DEVICE float operator()(float row, float momentum, float slot) const {
    const float move = momentum * moves.Over(kRoot ? Sqrt(slot) : slot, epsilon);
    return row - (decay * row + move);
  }
};
template <bool kRoot>
struct ScaledMoves {
  float epsilon;

  KERAS_SPARSE_HOST_DEVICE ScaledColumns<kRoot> Of(const HistoryView& /*history*/,
                                                   const Missed& missed) const {
    return {missed.decay, epsilon, missed.moves};
  }
};

// The moves of an element.
template <typename Element, typename = void>
struct MovesOf {
  KERAS_SPARSE_HOST_DEVICE static DecayMoves From(const Element& /*element*/) { return {}; }
};
template <typename Element>
struct MovesOf<Element, std::void_t<decltype(std::declval<Element>().moves())>> {
  KERAS_SPARSE_HOST_DEVICE static auto From(const Element& element) { return element.moves(); }
};

// Whether some columns are not usual.
template <typename Columns, typename = void>
constexpr bool kHasUnusual = false;
template <typename Columns>
constexpr bool kHasUnusual<Columns, std::void_t<decltype(&Columns::Found)>> = true;

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_MOVES_H_
