// The arithmetic of a rule for one element, for CPU loops and GPU kernels alike.
//
// An element is a plain struct: the numbers of a step, which a kernel takes by value, and what they
// make of one column of a record.
//
//     struct XElement {
//       static constexpr int kSlots = 2;     // of one float a column
//       static constexpr int kRowSlots = 0;  // of one float a row, behind them: none or one
//       void operator()(float g, float* row, float* slot_0, float* slot_1) const;
//     };
//
// One with a slot of the row takes its step of the row first, which gives the element for all of
// the row's columns:
//
//     template <typename MeanSquare>
//     ColumnElement OfRow(const MeanSquare& mean_square, float* slot) const;
//
// `mean_square()` is that of the row's gradient, SumOfSquares / dim: what has no use for it does
// not call it.
//
// What steps without a gradient make of a row is said by an element's `moves()`: see
// ops/core/optimizer/moves.h.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_ELEMENT_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_ELEMENT_H_

namespace keras_sparse {

// A rule that has one. A kernel's host side gets at it by
//
//     dynamic_cast<const ElementSource<AdagradElement>*>(&rule)
template <typename Element>
class ElementSource {
 public:
  // With the numbers of the step that was begun last.
  virtual Element element() const = 0;

 protected:
  ~ElementSource() = default;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_ELEMENT_H_
