// The arithmetic of a rule for one element, for CPU loops and GPU kernels alike.
//
// An element is a plain struct of a step's numbers, which a kernel takes by value, with the
// function that updates one column of a record.
//
//     struct XElement {
//       static constexpr int kSlots = 2;     // of one float a column
//       static constexpr int kRowSlots = 0;  // of one float a row, behind them: none or one
//       void operator()(float g, float* row, float* slot_0, float* slot_1) const;
//     };
//
// An element with a slot of the row first updates that slot, which returns the element for all
// columns of the row:
//
//     template <typename MeanSquare>
//     ColumnElement OfRow(const MeanSquare& mean_square, float* slot) const;
//
// `mean_square()` returns the mean square of the row's gradient, SumOfSquares / dim; elements that
// do not need it do not call it.
//
// An element's `moves()` defines what steps without a gradient do to a row: see
// ops/core/optimizer/moves.h.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_ELEMENT_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_ELEMENT_H_

namespace keras_sparse {

// A rule that has an element. The host side of a kernel gets the element by
//
//     dynamic_cast<const ElementSource<AdagradElement>*>(&rule)
template <typename Element>
class ElementSource {
 public:
  // Returns the element with the numbers of the step begun last.
  virtual Element element() const = 0;

 protected:
  ~ElementSource() = default;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_ELEMENT_H_
