// Rows that come from outside into a table in a GPU's memory over lower tiers.

#include "tests/ops/core/device/device_testing.h"
#include "tests/ops/core/support/hbm_stacks.h"
#include "tests/ops/core/support/snapshot_testing.h"

namespace keras_sparse::hbm_imports_test {

constexpr int64_t kDim = 8;

class HbmImports : public ::testing::TestWithParam<Tiers> {};

INSTANTIATE_TEST_SUITE_P(Over, HbmImports, ::testing::ValuesIn(HbmStacks()),
                         [](const auto& param) { return NameOf(param.param); });

// What comes from outside to a row that stays is one more use of it, as in memory: rows that were
// hot before stay the hottest.
TEST_P(HbmImports, AreUsesOfRowsAsInAFirstTierInMemory) {
  if (!AreInThisBuild(GetParam())) GTEST_SKIP() << "not in this build";
  const auto import_of = [](int64_t width) {
    return [width](EmbeddingTable* table, const std::vector<int64_t>& keys) {
      const auto n = static_cast<int64_t>(keys.size());
      return ImportAll(table, keys, RandomFloats(n * width, 3));
    };
  };
  const auto apply_delta = [](EmbeddingTable* table, const std::vector<int64_t>& keys) {
    const auto n = static_cast<int64_t>(keys.size());
    const std::vector<float> records = RandomFloats(n * 2 * kDim, 3);
    return ApplyChanges(table, HistoryOf(*table),
                        {{nullptr, 0, keys.data(), records.data(), n, 16}}, Inline());
  };
  const std::vector<std::function<Status(EmbeddingTable*, const std::vector<int64_t>&)>> ways = {
      import_of(kDim), import_of(2 * kDim), apply_delta};
  const std::vector<int64_t> hot = Range(0, 50);
  std::vector<int64_t> brought = hot;  // with rows that are below by then, and new ones
  for (int64_t key = 100; key < 220; ++key) brought.push_back(key < 160 ? key : 1000 + key);
  for (size_t way = 0; way < ways.size(); ++way) {
    for (const bool on_gpu : {false, true}) {
      SCOPED_TRACE(std::to_string(way) + (on_gpu ? " on a GPU" : " in memory"));
      TableOptions options = Dynamic(kDim);
      const TempFolder folder;
      options.storage =
          HbmOver(GetParam(), on_gpu ? 200 * 96 : 30000, 200000, folder / "rows", "LFU");
      if (!on_gpu) options.storage.device.reset();
      const auto table = OpenWithRule(options, AdagradRule(0.1));
      const auto use = [&table](const std::vector<int64_t>& ids) {
        return Apply(table.get(), {0.1f}, ids, RandomFloats(ids.size() * kDim, 1));
      };
      const auto demotions = [&table] { return TierStatsOf(*table)[0].demotions; };
      for (int step = 0; step < 6; ++step) ASSERT_TRUE(IsOk(use(hot)));
      for (int64_t step = 0; step < 8; ++step) {
        ASSERT_TRUE(IsOk(use(Range(100 + 60 * step, 160 + 60 * step))));
      }
      EXPECT_GT(demotions(), 100);
      ASSERT_TRUE(IsOk(ways[way](table.get(), brought)));
      const int64_t before = demotions();
      for (int64_t step = 0; step < 4; ++step) {
        // Each twice, so that a row that came in with the import is colder.
        const std::vector<int64_t> ids = Range(5000 + 60 * step, 5060 + 60 * step);
        for (int i = 0; i < 2; ++i) ASSERT_TRUE(IsOk(use(ids)));
      }
      EXPECT_GT(demotions() - before, 150);
      const int64_t hits = TierStatsOf(*table)[0].hits;
      (void)Lookup(table.get(), hot);
      EXPECT_EQ(TierStatsOf(*table)[0].hits - hits, 50);
    }
  }
}

}  // namespace keras_sparse::hbm_imports_test
