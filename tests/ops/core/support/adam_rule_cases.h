// The rules of the Adam kind.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_ADAM_RULE_CASES_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_ADAM_RULE_CASES_H_

#include <cmath>

#include "tests/ops/core/support/rule_case.h"

namespace keras_sparse {

// Keras' learning rate of Adam, with its bias correction.
inline double AdamAlpha(const ReferenceStep& step, double beta_1, double beta_2) {
  const auto t = static_cast<double>(step.number);
  return step.rate * std::sqrt(1 - std::pow(beta_2, t)) / (1 - std::pow(beta_1, t));
}

// "adam", "lazy_adam" and "amsgrad".
inline RuleCase AdamCase(const std::string& name, const std::string& rule, double beta_1 = 0.9,
                         double beta_2 = 0.999, double epsilon = 1e-7) {
  const double rest_1 = InFloat(1 - beta_1);
  const double rest_2 = InFloat(1 - beta_2);
  const auto alpha = [=](const ReferenceStep& step) { return AdamAlpha(step, beta_1, beta_2); };
  const bool amsgrad = rule == "amsgrad";
  RuleCase adam = {name,
                   {rule, 1, {{"beta_1", beta_1}, {"beta_2", beta_2}, {"epsilon", epsilon}}},
                   rule != "lazy_adam",
                   {{0}, {0}},
                   [=](const ReferenceStep& step) { return std::vector<double>{alpha(step)}; },
                   nullptr};
  if (amsgrad) adam.slots.push_back({0});
  adam.update = [=](const ReferenceStep& step, const std::vector<double>& g, RecordParts* parts) {
    Elementwise([=, rate = alpha(step)](const auto& /*step*/, double each, double** e) {
      *e[1] += (each - *e[1]) * rest_1;
      *e[2] += (each * each - *e[2]) * rest_2;
      if (amsgrad) *e[3] = std::max(*e[3], *e[2]);
      *e[0] -= rate * *e[1] / (std::sqrt(*e[amsgrad ? 3 : 2]) + epsilon);
    })(step, g, parts);
  };
  return adam;
}

inline RuleCase AdamaxCase() {
  const auto alpha = [](const ReferenceStep& step) {
    return step.rate / (1 - std::pow(0.9, static_cast<double>(step.number)));
  };
  return {"adamax",
          {"adamax", 1, {{"beta_1", 0.9}, {"beta_2", 0.999}, {"epsilon", 1e-7}}},
          true,
          {{0}, {0}},
          [=](const ReferenceStep& step) { return std::vector<double>{alpha(step)}; },
          Elementwise([=](const auto& step, double g, double** e) {
            *e[1] += (g - *e[1]) * InFloat(1 - 0.9);
            *e[2] = std::max(InFloat(0.999) * *e[2], std::abs(g));
            *e[0] -= alpha(step) * *e[1] / (*e[2] + 1e-7);
          })};
}

// u(t) of Nadam, and the product of u(1) to u(t).
inline double NadamU(int64_t t) { return 0.9 * (1 - 0.5 * std::pow(0.96, static_cast<double>(t))); }
inline double NadamProduct(int64_t t) {
  static std::vector<double> products = {1};
  while (static_cast<int64_t>(products.size()) <= t) {
    products.push_back(products.back() * NadamU(static_cast<int64_t>(products.size())));
  }
  return products[static_cast<size_t>(t)];
}

inline RuleCase NadamCase() {
  const double beta_1 = InFloat(0.9);
  const double beta_2 = InFloat(0.999);
  const auto bias_2 = [](const ReferenceStep& step) {
    return 1 - std::pow(0.999, static_cast<double>(step.number));
  };
  const auto of_momentum = [](const ReferenceStep& step) {
    return NadamU(step.number + 1) / (1 - NadamProduct(step.number + 1));
  };
  const auto of_gradient = [](const ReferenceStep& step) {
    return (1 - NadamU(step.number)) / (1 - NadamProduct(step.number));
  };
  return {"nadam",
          {"nadam", 1, {{"beta_1", 0.9}, {"beta_2", 0.999}, {"epsilon", 1e-7}}},
          true,
          {{0}, {0}},
          [=](const ReferenceStep& step) {
            return std::vector<double>{step.rate * of_momentum(step), step.rate * of_gradient(step),
                                       std::sqrt(bias_2(step))};
          },
          [=](const ReferenceStep& step, const std::vector<double>& g, RecordParts* parts) {
            const double m_part = of_momentum(step);
            const double g_part = of_gradient(step);
            const double bias = bias_2(step);
            Elementwise([=](const auto& at, double each, double** e) {
              *e[1] = beta_1 * *e[1] + (1 - beta_1) * each;
              *e[2] = beta_2 * *e[2] + (1 - beta_2) * each * each;
              const double m = m_part * *e[1] + g_part * each;
              *e[0] -= at.rate * m / (std::sqrt(*e[2] / bias) + 1e-7);
            })(step, g, parts);
          }};
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_ADAM_RULE_CASES_H_
