// A rule whose records move without gradients, on tables of every kind.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "ops/core/dram_store.h"
#include "ops/core/update_rule.h"
#include "tests/ops/core/table_testing.h"
#include "tests/ops/core/thread_executor.h"

namespace keras_sparse {
namespace {

// velocity = velocity / 2 + g
// row     -= velocity
//
// Gradients here are multiples of 1024, so that all sums are exact for a dozen steps and more.
class Drift : public UpdateRule {
 public:
  explicit Drift(int64_t dim)
      : UpdateRule("test_drift", RowSchema(dim, {{"velocity", false, 0}}, true)) {}

  int num_numbers() const override { return 0; }
  void BeginStep(int64_t step, const float* /*numbers*/) override { step_ = step; }

  void Update(float* const* records, const float* const* gradients, int64_t n) const override {
    for (int64_t i = 0; i < n; ++i) {
      EXPECT_EQ(schema().LastStep(records[i]), static_cast<uint32_t>(step_ - 1));
      Move(records[i], gradients[i]);
      schema().SetLastStep(records[i], step_);
    }
  }

  bool lazy() const override { return true; }
  void CatchUp(float* record, int64_t to_step) const override {
    const auto last = static_cast<uint32_t>(schema().LastStep(record));
    const auto missed = static_cast<int32_t>(static_cast<uint32_t>(to_step) - last);
    if (missed <= 0) return;
    for (int32_t i = 0; i < missed; ++i) Move(record, nullptr);
    schema().SetLastStep(record, to_step);
  }
  void Read(const float* record, float* row) const override {
    std::vector<float> copy(record, record + schema().record_bytes() / 4);
    CatchUp(copy.data(), step());
    std::copy_n(copy.begin(), schema().dim(), row);
  }

 private:
  void Move(float* record, const float* g) const {
    for (int64_t j = 0; j < schema().dim(); ++j) {
      float& velocity = record[schema().dim() + j];
      velocity = velocity / 2 + (g == nullptr ? 0 : g[j]);
      record[j] -= velocity;
    }
  }
};

const bool kRegistered =
    UpdateRule::Register("test_drift", 1, [](int64_t dim, const std::vector<float>&) {
      return std::unique_ptr<UpdateRule>(new Drift(dim));
    });

TableOptions FromZero(int64_t input_dim) {
  TableOptions options = Options(input_dim, 2);
  options.initializer = "constant";
  options.initializer_a = 0;
  return options;
}

std::unique_ptr<EmbeddingTable> OpenDrift(int64_t input_dim) {
  EXPECT_TRUE(kRegistered);
  return OpenWithRule(FromZero(input_dim), "test_drift", {0});
}

Status Kick(EmbeddingTable* table, int64_t step, const std::vector<int64_t>& ids,
            Executor* executor = Inline()) {
  return Apply(table, {"test_drift", step, {}}, ids, std::vector<float>(2 * ids.size(), 1024),
               executor);
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

const std::vector<int64_t> kIds = {0, 1, 2, 3, 4, 5};

TEST(LazyRule, ReadsAndUpdatesLikeADenseOne) {
  for (const int64_t input_dim : {-1, 6}) {
    const auto table = OpenDrift(input_dim);
    DenseDrift dense;
    ThreadExecutor executor(2);
    for (int64_t step = 1; step <= 12; ++step) {
      const std::vector<int64_t> ids = {step % 5, step * step % 5, step % 5};
      dense.Step(ids);
      ASSERT_TRUE(IsOk(Kick(table.get(), step, ids, &executor)));
      EXPECT_EQ(Lookup(table.get(), kIds, &executor), dense.Rows(kIds)) << "step " << step;
    }
  }
}

TEST(LazyRule, IsAppliedByReadingWithoutAWrite) {
  const auto table = OpenDrift(-1);
  auto owned = std::make_unique<DramStore>(20);
  const DramStore* store = owned.get();
  ASSERT_TRUE(IsOk(table->AddLowerTier(std::move(owned))));
  ASSERT_TRUE(IsOk(Kick(table.get(), 1, {7})));
  ASSERT_TRUE(IsOk(Kick(table.get(), 4, {8})));
  const int64_t key = 7;
  const std::vector<float> expected(2, -1024 - 512 - 256 - 128);
  EXPECT_EQ(Lookup(table.get(), {7}), expected);
  ASSERT_TRUE(IsOk(table->Demote(&key, 1)));
  EXPECT_EQ(Lookup(table.get(), {7}), expected);
  // The record itself is still that of step 1.
  std::vector<float> record(5);
  bool found = false;
  ASSERT_TRUE(IsOk(store->Get(&key, 1, reinterpret_cast<char*>(record.data()), &found)));
  EXPECT_EQ(record[0], -1024);
  EXPECT_EQ(record[2], 1024);
  uint32_t last_step = 0;
  std::memcpy(&last_step, &record[4], 4);
  EXPECT_EQ(last_step, 1u);
}

TEST(LazyRule, ExportsRecordsAsOfTheCurrentStep) {
  const auto table = OpenDrift(-1);
  DenseDrift dense;
  for (const std::vector<int64_t>& ids : {std::vector<int64_t>{1}, {2, 2}, {3}, {}}) {
    dense.Step(ids);
    const auto step = 1 + (ids.empty() ? 3 : ids[0] - 1);
    ASSERT_TRUE(IsOk(Kick(table.get(), step, ids)));
  }
  const Exported exported = ExportAll(*table);
  EXPECT_EQ(exported.size(), 3u);
  for (const auto& [key, row] : exported) {
    EXPECT_EQ(row.last_step, 4);
    const std::vector<float> expected = dense.Rows({key});
    EXPECT_EQ(row.record, (std::vector<float>{expected[0], expected[1], dense.velocity(key),
                                              dense.velocity(key)}));
  }
}

TEST(LazyRule, TrainsOnAfterAnImportAsIfItHadNeverStopped) {
  for (const int64_t input_dim : {-1, 6}) {
    const auto table = OpenDrift(input_dim);
    for (int64_t step = 1; step <= 6; ++step) {
      ASSERT_TRUE(IsOk(Kick(table.get(), step, {step % 4, step % 3})));
    }
    ExportedRows rows;
    ASSERT_TRUE(IsOk(table->Export(0, 1000, &rows)));
    ASSERT_EQ(rows.next_cursor, -1);
    const auto copy = OpenDrift(input_dim);
    ASSERT_TRUE(IsOk(copy->Import(rows.keys.data(), static_cast<int64_t>(rows.keys.size()),
                                  rows.records.data(), 4, rows.last_steps.data(), Inline())));
    EXPECT_EQ(Lookup(copy.get(), kIds), Lookup(table.get(), kIds));
    for (int64_t step = 7; step <= 10; ++step) {
      for (EmbeddingTable* each : {copy.get(), table.get()}) {
        ASSERT_TRUE(IsOk(Kick(each, step, {step % 4})));
      }
      EXPECT_EQ(Lookup(copy.get(), kIds), Lookup(table.get(), kIds));
    }
    EXPECT_EQ(ExportAll(*copy), ExportAll(*table));
  }
}

TEST(LazyRule, KeepsItsSlotsUpToDateWhereAnImportSetsRowsAlone) {
  const auto table = OpenDrift(-1);
  ASSERT_TRUE(IsOk(Kick(table.get(), 1, {1})));
  ASSERT_TRUE(IsOk(Kick(table.get(), 4, {2})));
  const int64_t key = 1;
  const std::vector<float> row = {8, 16};
  ASSERT_TRUE(IsOk(table->Import(&key, 1, row.data(), 2, nullptr, Inline())));
  EXPECT_EQ(Lookup(table.get(), {1}), row);
  // Three halvings: steps 2, 3 and 4.
  EXPECT_EQ(ExportAll(*table).at(1).record, (std::vector<float>{8, 16, 128, 128}));
  ASSERT_TRUE(IsOk(Kick(table.get(), 5, {2})));
  EXPECT_EQ(Lookup(table.get(), {1}), (std::vector<float>{8 - 64, 16 - 64}));
}

TEST(LazyRule, MakesItsPendingMovesBeforeAnotherRuleTakesOver) {
  for (const int64_t input_dim : {-1, 6}) {
    const auto table = OpenDrift(input_dim);
    ASSERT_TRUE(IsOk(Kick(table.get(), 1, {1, 2})));
    ASSERT_TRUE(IsOk(Kick(table.get(), 5, {3})));
    const std::vector<float> before = Lookup(table.get(), kIds);
    ASSERT_TRUE(IsOk(table->SetRule("sgd", {}, Inline())));
    EXPECT_EQ(Lookup(table.get(), kIds), before);
  }
}

TEST(LazyRule, CountsStepsAcrossTheEndOfItsStepWord) {
  const auto table = OpenDrift(-1);
  const int64_t first = (int64_t{1} << 32) - 2;
  ASSERT_TRUE(IsOk(Kick(table.get(), first, {1})));
  ASSERT_TRUE(IsOk(Kick(table.get(), first + 4, {2})));
  EXPECT_EQ(Lookup(table.get(), {1})[0], -1024 - 512 - 256 - 128 - 64);
  ASSERT_TRUE(IsOk(Kick(table.get(), first + 5, {1})));
  EXPECT_EQ(Lookup(table.get(), {1})[0], -1024 - 512 - 256 - 128 - 64 - 32 - 1024);
}

TEST(LazyRule, ChangesNoBitOverALowerTierOrOnManyThreads) {
  const auto train = [](bool tiered, Executor* executor) {
    const auto table = OpenDrift(-1);
    if (tiered) (void)table->AddLowerTier(std::make_unique<DramStore>(20));
    for (int64_t step = 1; step <= 12; ++step) {
      const auto ids = RandomIds(3000, 0, 2000, static_cast<uint64_t>(step));
      EXPECT_TRUE(IsOk(Kick(table.get(), step, ids, executor)));
      EXPECT_EQ(table->Demote(ids.data(), 1500).ok(), tiered);
      (void)Lookup(table.get(), ids, executor);
    }
    return ExportAll(*table);
  };
  const Exported expected = train(false, Inline());
  ThreadExecutor executor(4);
  EXPECT_EQ(train(false, &executor), expected);
  EXPECT_EQ(train(true, Inline()), expected);
  EXPECT_EQ(train(true, &executor), expected);
}

}  // namespace
}  // namespace keras_sparse
