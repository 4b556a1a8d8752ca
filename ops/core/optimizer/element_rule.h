// The loop over records on a CPU, for all rules.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_ELEMENT_RULE_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_ELEMENT_RULE_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "ops/core/math/dot.h"
#include "ops/core/optimizer/deferred_rule.h"
#include "ops/core/optimizer/element.h"

namespace keras_sparse {

// Parameters that cannot overlap, since the compiler makes vectors of the columns only then.
template <typename Element, typename... Floats>
inline void UpdateColumns(const Element& element, const float* __restrict g, int64_t dim,
                          float* __restrict row, Floats* __restrict... slots) {
  for (int64_t j = 0; j < dim; ++j) element(g[j], row + j, (slots + j)...);
}

// A rule whose arithmetic is that of an element (ops/core/optimizer/element.h).
//   Base  DeferredRule, or UpdateRule
template <typename Element, typename Base = DeferredRule>
class ElementRule : public Base, public ElementSource<Element> {
 protected:
  using Base::Base;

  void UpdateRecords(float* const* records, const float* const* gradients, int64_t n) const final {
    const int64_t dim = this->dim();
    const Element element = this->element();
    constexpr auto kSlots = std::make_index_sequence<Element::kSlots>();
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
  template <typename ColumnElement, size_t... kSlots>
  static void UpdateRecord(const ColumnElement& element, const float* g, int64_t dim, float* record,
                           std::index_sequence<kSlots...> /*slots*/) {
    UpdateColumns(element, g, dim, record, (record + (kSlots + 1) * static_cast<size_t>(dim))...);
  }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_ELEMENT_RULE_H_
