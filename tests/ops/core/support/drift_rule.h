// A rule whose records move without gradients, simple enough to follow exactly.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_DRIFT_RULE_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_DRIFT_RULE_H_

#include <algorithm>

#include "ops/core/optimizer/update_rule.h"
#include "tests/ops/core/support/table_testing.h"

namespace keras_sparse {

// velocity = velocity / 2 + g
// row     -= velocity
//
// Gradients here are multiples of 1024, so that all sums are exact for a dozen steps and more.
class Drift : public UpdateRule {
 public:
  explicit Drift(const RuleOptions& options)
      : UpdateRule(options,
                   RecordLayout(options.dim,
                                {{"velocity", false,
                                  static_cast<float>(options.constants.at("initial_velocity"))}},
                                true)) {}

  void CatchUp(float* record) const override {
    for (int64_t missed = MissedSteps(float_layout(), record); missed > 0; --missed)
      Move(record, nullptr);
    layout().SetLastStep(record, step());
  }
  void Read(const float* record, float* row) const override {
    std::vector<float> copy(record, record + layout().record_bytes() / 4);
    CatchUp(copy.data());
    std::copy_n(copy.begin(), dim(), row);
  }

 protected:
  void UpdateRecords(float* const* records, const float* const* gradients,
                     int64_t n) const override {
    for (int64_t i = 0; i < n; ++i) {
      EXPECT_TRUE(IsCurrent(records[i])) << "a record must be caught up before its update";
      Move(records[i], gradients[i]);
    }
  }

 private:
  void Move(float* record, const float* g) const {
    for (int64_t j = 0; j < dim(); ++j) {
      float& velocity = record[dim() + j];
      velocity = velocity / 2 + (g == nullptr ? 0 : g[j]);
      record[j] -= velocity;
    }
  }
};

inline RuleOptions DriftRule(double initial_velocity = 0) {
  static const bool registered = UpdateRule::Register(
      "test_drift", {"initial_velocity"},
      [](const RuleOptions& options) { return std::unique_ptr<UpdateRule>(new Drift(options)); });
  EXPECT_TRUE(registered);
  return {"test_drift", 1, {{"initial_velocity", initial_velocity}}};
}

// Rows of two zeros.
inline TableOptions Zeros(int64_t input_dim) {
  TableOptions options = Options(input_dim, 2);
  options.initializer = {};
  return options;
}

inline std::unique_ptr<EmbeddingTable> OpenDrift(int64_t input_dim, double initial_velocity = 0) {
  return OpenWithRule(Zeros(input_dim), DriftRule(initial_velocity));
}

// A step with a gradient of 1024 for each of the ids.
inline Status Kick(EmbeddingTable* table, const std::vector<int64_t>& ids,
                   Executor* executor = Inline()) {
  return Apply(table, {1}, ids, std::vector<float>(2 * ids.size(), 1024), executor);
}

// Every row moves at every step, as a dense optimizer would have it.
class DenseDrift {
 public:
  void Step(const std::vector<int64_t>& ids) {
    for (const int64_t id : ids) rows_[id];
    for (auto& [id, state] : rows_) {
      state.velocity /= 2;
      for (const int64_t kicked : ids) state.velocity += kicked == id ? 1024 : 0;
      state.row -= state.velocity;
    }
  }
  std::vector<float> Rows(const std::vector<int64_t>& ids) {
    std::vector<float> rows;
    for (const int64_t id : ids) rows.insert(rows.end(), 2, static_cast<float>(rows_[id].row));
    return rows;
  }
  float velocity(int64_t id) { return static_cast<float>(rows_[id].velocity); }

 private:
  struct State {
    double row = 0;
    double velocity = 0;
  };
  std::map<int64_t, State> rows_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_DRIFT_RULE_H_
