// What a rule remembers of its steps for rows in a GPU's memory: as long as for a table in memory.
#include <tuple>

#include "ops/core/operations/set_rule.h"
#include "tests/ops/core/device/device_testing.h"
#include "tests/ops/core/support/hbm_stacks.h"
#include "tests/ops/core/support/snapshot_testing.h"

namespace keras_sparse::hbm_history_test {

constexpr int64_t kDim = 4;

// The kind of table, and whether its records are packed.
class HbmHistory : public ::testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  HbmHistory() {
    TableOptions options = kind() == 0 ? Options(100, kDim) : Dynamic(kDim);
    if (std::get<1>(GetParam())) options.types = kPackedTypes[0];
    tables_.push_back(OpenWithRule(options, AdamRule()));
    if (kind() == 2) options.storage = HbmOver({"dram"}, 20 * 96, 1);
    if (kind() != 2) options.storage.device = OpenDevice();
    tables_.push_back(OpenWithRule(options, AdamRule()));
  }

  static int kind() { return std::get<0>(GetParam()); }
  void Update(const std::vector<int64_t>& ids, int step) {
    const auto n = static_cast<int64_t>(ids.size());
    // Another rate each time, so that each step is remembered by itself.
    const float rate = 1.0f / static_cast<float>(step + 1);
    for (const auto& table : tables_) {
      ASSERT_TRUE(IsOk(
          Apply(table.get(), {rate, rate}, ids, RandomFloats(n * kDim, static_cast<uint64_t>(n)))));
    }
  }
  bool has_forgotten(size_t table) const {
    return TableSnapshot(tables_[table].get()).is_everything_changed();
  }

  std::vector<std::unique_ptr<EmbeddingTable>> tables_;  // in memory, and on a GPU
};

std::string NameOfTables(const ::testing::TestParamInfo<std::tuple<int, bool>>& info) {
  const char* names[] = {"StaticTables", "DynamicTables", "TablesOverMemory"};
  return std::string(std::get<1>(info.param) ? "Packed" : "") + names[std::get<0>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Of, HbmHistory,
                         ::testing::Combine(::testing::Values(0, 1, 2), ::testing::Bool()),
                         NameOfTables);

TEST_P(HbmHistory, IsBoundedInALongTraining) {
  Update(Range(0, 60), 0);
  if (kind() != 0) {  // rows that are free when the others are brought up to date
    for (const auto& table : tables_) ASSERT_TRUE(IsOk(EraseRows(table.get(), {3, 50, 51})));
  }
  int step = 1;
  for (int times = kind() == 1 ? 2 : 1; times > 0; --times) {
    for (const auto& table : tables_) ASSERT_TRUE(IsOk(MarkSaved(table.get())));
    for (const int end = step + 100000; step < end && !has_forgotten(0); ++step) Update({}, step);
    ASSERT_TRUE(has_forgotten(0));
    ASSERT_TRUE(has_forgotten(1));
    ASSERT_EQ(ExportRaw(tables_[1].get()), ExportRaw(tables_[0].get())) << step;
    Update(Range(40, 80), ++step);
    ASSERT_EQ(Bits(Lookup(tables_[1].get(), Range(0, 100))),
              Bits(Lookup(tables_[0].get(), Range(0, 100))));
  }
  EXPECT_EQ(ExportAll(*tables_[1]), ExportAll(*tables_[0]));
  const RuleHistory history = HistoryOf(*tables_[1]);
  EXPECT_GT(history.first_step, history.step / 2);  // and not all since the first one
}

}  // namespace keras_sparse::hbm_history_test
