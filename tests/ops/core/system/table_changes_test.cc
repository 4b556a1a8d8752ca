// What has changed since a checkpoint, over random training: it and what has gone make the
// checkpoint into the table, bit for bit, and no other row is among it.

#include "tests/ops/core/support/check_tiered_table.h"
#include "tests/ops/core/support/snapshot_testing.h"
#include "tests/ops/core/support/table_access.h"

namespace keras_sparse::table_changes_test {

struct Case {
  std::string name;
  std::vector<std::string> lower_tiers;
  std::vector<int64_t> sizes;
  std::string strategy = "LRU";
  std::string rule = "adagrad";
  std::string eviction_threads = "1";
  std::string async_compaction = "0";
  int64_t input_dim = -1;
};

void PrintTo(const Case& param, std::ostream* stream) { *stream << param.name; }

class TableChanges : public ::testing::TestWithParam<Case> {
 protected:
  static constexpr int64_t kDim = 4;
  static constexpr int64_t kKeys = 600;

  void SetUp() override {
    const Case& param = GetParam();
    TableOptions options = Options(param.input_dim, kDim);
    options.storage = {param.lower_tiers, param.sizes, folder_ / "rows", param.strategy};
    if (param.lower_tiers.empty()) options.storage = {};
    ::setenv("KERAS_SPARSE_EVICTION_THREADS", param.eviction_threads.c_str(), 1);
    ::setenv("KERAS_SPARSE_SSDHASH_ASYNC_COMPACTION", param.async_compaction.c_str(), 1);
    const Status opened = EmbeddingTable::Open(options, Inline(), &table_);
    if (opened.code() == StatusCode::kInvalidArgument) GTEST_SKIP() << "not in this build";
    ASSERT_TRUE(IsOk(opened));
    rule_ = param.rule == "adam" ? AdamRule() : AdagradRule(0.1);
    ASSERT_TRUE(IsOk(SetRule(table_.get(), rule_, Inline())));
    ::unsetenv("KERAS_SPARSE_EVICTION_THREADS");
    ::unsetenv("KERAS_SPARSE_SSDHASH_ASYNC_COMPACTION");
  }

  // Some updates, imports, erasures, demotions and lookups.
  void Train(std::mt19937_64* random) {
    ThreadExecutor executor(3);
    const bool is_dynamic = table_->options().is_dynamic();
    const auto steps = static_cast<int64_t>((*random)() % 8);
    for (int64_t i = 0; i < steps; ++i) {
      // Some rows are used often, and some steps are large.
      const int64_t last = (*random)() % 3 == 0 ? kKeys - 1 : kKeys / 10;
      const std::vector<int64_t> ids =
          RandomIds((*random)() % 5 == 0 ? 300 : 20, 0, last, (*random)());
      const auto n = static_cast<int64_t>(ids.size());
      switch ((*random)() % 6) {
        case 0:
          ASSERT_TRUE(IsOk(ImportAll(table_.get(), ids, RandomFloats(n * kDim, 1), &executor)));
          Touch(ids);
          break;
        case 1:
          if (!is_dynamic) break;
          ASSERT_TRUE(IsOk(EraseRows(table_.get(), ids, &executor)));
          for (const int64_t id : ids) touched_.erase(id);
          break;
        case 2:
          if (!GetParam().lower_tiers.empty()) {
            ASSERT_TRUE(IsOk(Demote(table_.get(), ids.data(), n)));
          }
          break;
        default:
          ++step_;
          ASSERT_TRUE(IsOk(Apply(table_.get(), NumbersOf(rule_, step_), ids,
                                 RandomFloats(n * kDim, (*random)()), &executor)));
          Touch(ids);
      }
      (void)Lookup(table_.get(), RandomIds(30, 0, kKeys - 1, (*random)()), &executor);
    }
  }

  // Another one for each case.
  static std::mt19937_64 Random(int run) {
    std::vector<int> numbers(GetParam().name.begin(), GetParam().name.end());
    numbers.push_back(run);
    std::seed_seq seed(numbers.begin(), numbers.end());
    return std::mt19937_64(seed);
  }

  void Touch(const std::vector<int64_t>& ids) { touched_.insert(ids.begin(), ids.end()); }

  const TempFolder folder_;
  std::unique_ptr<EmbeddingTable> table_;
  RuleOptions rule_;
  int64_t step_ = 0;
  std::set<int64_t> touched_;  // since the last save, and there
};

TEST_P(TableChanges, AreTheRowsThatWereTouchedAndMakeACheckpointTheTable) {
  for (int run = 0; run < 2; ++run) {
    std::mt19937_64 random = Random(run);
    SavedTable saved;
    Train(&random);
    saved.SaveAll(table_.get());
    EXPECT_EQ(static_cast<int64_t>(saved.Load().size()), NumRowsOf(*table_));
    touched_.clear();
    for (int round = 0; round < 20; ++round) {
      Train(&random);
      ASSERT_EQ(KeysOf(ExportRaw(table_.get(), kChanged, 1 + round % 50)), touched_)
          << "run " << run << ", round " << round;
      saved.SaveChanges(table_.get());
      touched_.clear();
      ASSERT_EQ(saved.Load(), ExportRaw(table_.get())) << "run " << run << ", round " << round;
      ASSERT_TRUE(ExportRaw(table_.get(), kChanged).empty());
      ASSERT_TRUE(TableSnapshot(table_.get()).ErasedKeys().empty());
    }
    if (run == 0) {
      ASSERT_TRUE(IsOk(ClearRows(table_.get(), Inline())));
    }
  }
}

TEST_P(TableChanges, WithLinkedFilesMakeACheckpointTheTable) {
  for (int run = 0; run < 2; ++run) {
    std::mt19937_64 random = Random(run);
    SavedTable saved;
    Train(&random);
    saved.LinkAll(table_.get());
    ASSERT_EQ(saved.Load(), ExportRaw(table_.get()));
    for (int round = 0; round < 20; ++round) {
      Train(&random);
      // Now and then a delta, which copies what has changed.
      if (random() % 4 == 0) {
        saved.SaveChanges(table_.get());
      } else {
        saved.LinkChanges(table_.get());
      }
      ASSERT_EQ(saved.Load(), ExportRaw(table_.get())) << "run " << run << ", round " << round;
    }
  }
}

std::vector<Case> Cases() {
  const std::vector<std::string> ssd = {"ssdhash"};
  const std::vector<std::string> pmem_ssd = {"pmem", "ssdhash"};
  constexpr int64_t kMuch = int64_t{1} << 30;
  return {
      {"Memory", {}, {}},
      {"MemoryAdam", {}, {}, "LRU", "adam"},
      {"Static", {}, {}, "LRU", "adagrad", "1", "0", 600},
      {"Ssd", ssd, {8000, kMuch}},
      {"SsdLfu", ssd, {8000, kMuch}, "LFU"},
      {"SsdAlone", ssd, {1, kMuch}},
      {"SsdAdam", ssd, {8000, kMuch}, "LRU", "adam"},
      {"SsdInTheStep", ssd, {8000, kMuch}, "LRU", "adagrad", "0"},
      {"SsdAsyncCompaction", ssd, {8000, kMuch}, "LFU", "adagrad", "3", "1"},
      {"Pmem", {"pmem"}, {8000, 1 << 20}, "LFU"},
      {"LevelDb", {"leveldb"}, {8000, kMuch}},
      {"PmemLevelDb", {"pmem", "leveldb"}, {8000, 10000, kMuch}, "LFU", "adam"},
      {"PmemSsd", pmem_ssd, {8000, 10000, kMuch}},
      {"PmemSsdInTheStep", pmem_ssd, {1, 3000, kMuch}, "LFU", "adam", "0"},
  };
}

INSTANTIATE_TEST_SUITE_P(Tiers, TableChanges, ::testing::ValuesIn(Cases()),
                         [](const auto& param) { return param.param.name; });

}  // namespace keras_sparse::table_changes_test
