// ElementRule: the loops over records on a CPU, for all rules.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_ELEMENT_RULE_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_ELEMENT_RULE_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "ops/core/math/dot.h"
#include "ops/core/math/vector_math.h"
#include "ops/core/optimizer/deferred_rule.h"
#include "ops/core/optimizer/element.h"
#include "ops/core/optimizer/move_record.h"
#include "ops/core/optimizer/moves.h"

namespace keras_sparse {

// __restrict parameters, because the compiler vectorizes the columns only if they cannot overlap.
template <typename Element, typename... Floats>
inline void UpdateColumns(const Element& element, const float* __restrict g, int64_t dim,
                          float* __restrict row, Floats* __restrict... slots) {
  for (int64_t j = 0; j < dim; ++j) element(g[j], row + j, (slots + j)...);
}

// A rule whose arithmetic is an element (ops/core/optimizer/element.h).
//   Base  DeferredRule, or UpdateRule
template <typename Element, typename Base = DeferredRule>
class ElementRule : public Base, public ElementSource<Element> {
 public:
  void CatchUp(float* record) const final {
    if constexpr (kDefers) {
      const HistoryView& history = this->history_view();
      const int64_t first = history.StepOf(record);
      if (first != history.step) CatchUpFrom(history, first, record);
    }
  }
  void Read(const float* record, float* row) const final {
    if constexpr (kDefers) {
      const HistoryView& history = this->history_view();
      const int64_t first = history.StepOf(record);
      if (first != history.step) return ReadFrom(history, first, record, row);
    }
    CopyRow(record, this->dim(), row);
  }

 protected:
  using Base::Base;

  void UpdateRecords(float* const* records, const float* const* gradients, int64_t n) const final {
    const int64_t dim = this->dim();
    const Element element = this->element();
    constexpr auto kSlots = Slots();
    for (int64_t i = 0; i < n; ++i) {
      const float* g = gradients[i];
      if constexpr (Element::kRowSlots == 0) {
        UpdateRecord(element, g, dim, records[i], kSlots);
      } else {
        const auto mean_square = [g, dim] { return Dot(g, g, dim) / static_cast<float>(dim); };
        float* row_slot = records[i] + (1 + Element::kSlots) * dim;
        UpdateRecord(element.OfRow(mean_square, row_slot), g, dim, records[i], kSlots);
      }
    }
  }

 private:
  static constexpr bool kDefers = std::is_base_of_v<DeferredRule, Base>;
  using Slots = std::make_index_sequence<Element::kSlots>;

  auto moves() const { return MovesOf<Element>::From(this->element()); }

  // Catches up a record that is as of step `first` and misses the steps after it.
  void CatchUpFrom(const HistoryView& history, int64_t first, float* record) const {
    CatchUpRecord<Element::kSlots>(history, moves(), this->dim(), first, record);
  }
  void ReadFrom(const HistoryView& history, int64_t first, const float* record, float* row) const {
    const Missed missed = history.After(first, first);
    if (missed.to == history.step) {
      MoveRow<Element::kSlots>(history, moves(), missed, this->dim(), record, row);
      return;
    }
    static thread_local std::vector<float> copy;
    copy.assign(record, record + this->float_layout().record_words());
    CatchUpFrom(history, first, copy.data());
    CopyRow(copy.data(), this->dim(), row);
  }

  template <typename ColumnElement, size_t... kSlots>
  static void UpdateRecord(const ColumnElement& element, const float* g, int64_t dim, float* record,
                           std::index_sequence<kSlots...> /*slots*/) {
    UpdateColumns(element, g, dim, record, (record + (kSlots + 1) * static_cast<size_t>(dim))...);
  }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_ELEMENT_RULE_H_
