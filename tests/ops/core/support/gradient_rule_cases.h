// The rules that divide a gradient by its size, or by nothing.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_GRADIENT_RULE_CASES_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_GRADIENT_RULE_CASES_H_

#include <cmath>

#include "tests/ops/core/support/rule_case.h"

namespace keras_sparse {

inline RuleCase SgdCase() {
  return {"sgd",
          {"sgd", 1, {}},
          true,
          {},
          NoMoreNumbers,
          Elementwise([](const auto& step, double g, double** e) { *e[0] -= step.rate * g; })};
}

inline RuleCase MomentumCase(const std::string& name, double momentum, bool nesterov) {
  const double mu = InFloat(momentum);
  return {name,
          {"momentum", 1, {{"momentum", momentum}, {"nesterov", nesterov ? 1.0 : 0.0}}},
          true,
          {{0}},
          NoMoreNumbers,
          Elementwise([mu, nesterov](const auto& step, double g, double** e) {
            *e[1] = mu * *e[1] - step.rate * g;
            *e[0] += nesterov ? mu * *e[1] - step.rate * g : *e[1];
          })};
}

inline RuleCase AdagradCase() {
  return {"adagrad",
          {"adagrad", 1, {{"initial_accumulator", 0.1}, {"epsilon", 1e-7}}},
          true,
          {{0.1}},
          NoMoreNumbers,
          Elementwise([](const auto& step, double g, double** e) {
            *e[1] += g * g;
            *e[0] -= step.rate * g / std::sqrt(*e[1] + 1e-7);
          })};
}

inline RuleCase RowWiseAdagradCase() {
  return {"row_wise_adagrad",
          {"row_wise_adagrad", 1, {{"initial_accumulator", 0.1}, {"epsilon", 1e-7}}},
          false,
          {{0.1, true}},
          NoMoreNumbers,
          [](const ReferenceStep& step, const std::vector<double>& g, RecordParts* parts) {
            double squares = 0;
            for (const double each : g) squares += each * each;
            double& accumulator = (*parts)[1][0];
            accumulator += squares / static_cast<double>(g.size());
            for (size_t j = 0; j < g.size(); ++j) {
              (*parts)[0][j] -= step.rate * g[j] / std::sqrt(accumulator + 1e-7);
            }
          }};
}

// Accumulators decay at every 50th step, all of them.
inline RuleCase AdagradDecayCase() {
  const auto num_decays = [](const ReferenceStep& step) { return step.number / 50; };
  return {
      "adagrad_decay",
      {"adagrad_decay", 1, {{"initial_accumulator", 0.1}, {"epsilon", 1e-7}, {"decay_rate", 0.9}}},
      false,
      {{0.1}, {0, true}},
      [num_decays](const ReferenceStep& step) {
        return std::vector<double>{static_cast<double>(num_decays(step))};
      },
      [num_decays](const ReferenceStep& step, const std::vector<double>& g, RecordParts* parts) {
        double& count = (*parts)[2][0];
        for (; count < static_cast<double>(num_decays(step)); ++count) {
          for (double& a : (*parts)[1]) a = std::max(a * 0.9, 0.1);
        }
        Elementwise([](const auto& at, double each, double** e) {
          *e[1] += each * each;
          *e[0] -= at.rate * each / std::sqrt(*e[1] + 1e-7);
        })(step, g, parts);
      }};
}

inline RuleCase RmsPropCase(const std::string& name, const std::string& rule, double momentum,
                            bool centered) {
  const double rho = InFloat(0.9);
  const double one_minus_rho = InFloat(1 - 0.9);
  const double mu = InFloat(momentum);
  RuleCase rms_prop = {name,
                       {rule,
                        1,
                        {{"rho", 0.9},
                         {"momentum", momentum},
                         {"epsilon", 1e-7},
                         {"centered", centered ? 1.0 : 0.0}}},
                       rule == "rmsprop",
                       {{0}},
                       NoMoreNumbers,
                       nullptr};
  if (momentum > 0) rms_prop.slots.push_back({0});
  if (centered) rms_prop.slots.push_back({0});
  rms_prop.update = Elementwise([=](const auto& step, double g, double** e) {
    *e[1] = rho * *e[1] + one_minus_rho * g * g;
    double variance = *e[1];
    if (centered) {
      double& average = *e[momentum > 0 ? 3 : 2];
      average = rho * average + one_minus_rho * g;
      variance -= average * average;
    }
    double move = step.rate * g / std::sqrt(variance + 1e-7);
    if (momentum > 0) move = *e[2] = mu * *e[2] + move;
    *e[0] -= move;
  });
  return rms_prop;
}

inline RuleCase AdadeltaCase() {
  return {"adadelta",
          {"adadelta", 1, {{"rho", 0.95}, {"epsilon", 1e-7}}},
          true,
          {{0}, {0}},
          NoMoreNumbers,
          Elementwise([](const auto& step, double g, double** e) {
            const double rho = InFloat(0.95);
            const double one_minus_rho = InFloat(1 - 0.95);
            *e[1] = rho * *e[1] + one_minus_rho * g * g;
            const double delta = std::sqrt(*e[2] + 1e-7) * g / std::sqrt(*e[1] + 1e-7);
            *e[2] = rho * *e[2] + one_minus_rho * delta * delta;
            *e[0] -= step.rate * delta;
          })};
}

inline RuleCase LionCase(const std::string& name, double beta_1, double beta_2) {
  return {name,
          {"lion", 1, {{"beta_1", beta_1}, {"beta_2", beta_2}}},
          true,
          {{0}},
          NoMoreNumbers,
          Elementwise(
              [b1 = InFloat(beta_1), b2 = InFloat(beta_2)](const auto& step, double g, double** e) {
                const double direction = b1 * *e[1] + (1 - b1) * g;
                *e[0] -= step.rate * (direction > 0 ? 1 : direction < 0 ? -1 : 0);
                *e[1] = b2 * *e[1] + (1 - b2) * g;
              })};
}

struct FtrlStrengths {
  double l1 = 0;
  double l2 = 0;
  double l2_shrinkage = 0;
  double beta = 0;
};

inline RuleCase FtrlCase(const std::string& name, double p, const FtrlStrengths& strengths) {
  return {name,
          {"ftrl",
           1,
           {{"initial_accumulator", 0.1},
            {"learning_rate_power", -p},
            {"l1", strengths.l1},
            {"l2", strengths.l2},
            {"l2_shrinkage", strengths.l2_shrinkage},
            {"beta", strengths.beta}}},
          false,
          {{0.1}, {0}},
          NoMoreNumbers,
          Elementwise([=](const auto& step, double g, double** e) {
            const double old_power = std::pow(*e[1], p);
            *e[1] += g * g;
            const double power = std::pow(*e[1], p);
            const double l1 = strengths.l1;
            const double l2 = strengths.l2 + strengths.beta / (2 * step.rate);
            *e[2] +=
                g + 2 * strengths.l2_shrinkage * *e[0] - (power - old_power) / step.rate * *e[0];
            *e[0] = (std::clamp(*e[2], -l1, l1) - *e[2]) / (power / step.rate + 2 * l2);
          }),
          0.01,
          1e-5};
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_GRADIENT_RULE_CASES_H_
