// What a rule ought to do, as plain as it can be said: in double precision, a record at a time, and
// every record of a dense rule at every step.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_RULE_CASE_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_RULE_CASE_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "ops/core/optimizer/update_rule.h"

namespace keras_sparse {

// The row, then the slots.
using RecordParts = std::vector<std::vector<double>>;

struct ReferenceStep {
  int64_t number;  // from 1
  double rate;
};

struct RuleCase {
  std::string name;
  RuleOptions options;
  // Whether a record without a gradient is updated by a gradient of zeros, or else stays.
  bool dense;
  struct InitialSlot {
    double value;
    bool per_row = false;
  };
  std::vector<InitialSlot> slots;
  // What the step has after the learning rate.
  std::function<std::vector<double>(const ReferenceStep& step)> more_numbers;
  // Comes after weight decay.
  std::function<void(const ReferenceStep& step, const std::vector<double>& g, RecordParts* parts)>
      update;
  double least_rate = -1e9;
  double slot_slack = 0;  // what float32 may lose of a slot where large numbers cancel

  std::vector<float> Numbers(const ReferenceStep& step) const {
    std::vector<float> numbers = {static_cast<float>(step.rate)};
    for (const double number : more_numbers(step)) numbers.push_back(static_cast<float>(number));
    return numbers;
  }
  // A record that begins at this row.
  RecordParts Begin(const std::vector<float>& row) const {
    RecordParts parts = {{row.begin(), row.end()}};
    for (const InitialSlot& slot : slots) {
      parts.emplace_back(slot.per_row ? 1 : row.size(), slot.value);
    }
    return parts;
  }
  void Step(const ReferenceStep& step, const std::vector<double>& g, RecordParts* parts) const {
    for (double& x : parts->front()) x *= 1 - options.weight_decay * step.rate;
    update(step, g, parts);
  }
};

// Keras' optimizers work in float32, so that 0.999 is a little off. Over a thousand steps it shows.
inline double InFloat(double x) { return static_cast<double>(static_cast<float>(x)); }
inline std::vector<double> NoMoreNumbers(const ReferenceStep& /*step*/) { return {}; }

// An update that takes elements one by one: element(step, g, row, slots...).
template <typename Element>
auto Elementwise(const Element& element) {
  return [element](const ReferenceStep& step, const std::vector<double>& g, RecordParts* parts) {
    for (size_t j = 0; j < g.size(); ++j) {
      std::array<double*, 4> e = {};
      for (size_t part = 0; part < parts->size(); ++part) {
        std::vector<double>& values = (*parts)[part];
        e[part] = &values[std::min(j, values.size() - 1)];
      }
      element(step, g[j], e.data());
    }
  };
}

inline void PrintTo(const RuleCase& rule_case, std::ostream* out) { *out << rule_case.name; }

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_RULE_CASE_H_
