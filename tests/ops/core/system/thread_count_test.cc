// One thread or many, the same bits.

#include "ops/core/operations/evict_rows.h"
#include "ops/core/stores/dram_store.h"
#include "tests/ops/core/support/table_access.h"
#include "tests/ops/core/support/table_testing.h"
#include "tests/ops/core/support/temp_folder.h"
#include "tests/ops/core/support/thread_executor.h"

namespace keras_sparse::thread_count_test {

// Everything a short training run gives: outputs of each step, then the table.
struct Trained {
  std::vector<uint32_t> outputs;
  Exported table;
};

// The rows of Adam move in steps without a gradient as well, and with such betas in many pieces.
Trained Train(const TableOptions& options, Executor* executor) {
  const auto table = Open(options, executor);
  EXPECT_TRUE(IsOk(SetRule(table.get(), AdamRule("adam", 0.9, 0.5), executor)));
  Trained run;
  for (int64_t step = 1; step <= 4; ++step) {
    const auto seed = static_cast<uint64_t>(step) * 100;
    const std::vector<int64_t> splits = RandomSplits(3000, 8, seed);
    const std::vector<int64_t> ids = RandomIds(splits.back(), 0, 4999, seed + 1);
    const std::vector<float> weights = RandomFloats(splits.back(), seed + 2);
    const Bags bags = BagsOf(Combiner::kSqrtN, splits, weights);
    for (const uint32_t bits : Bits(Pool(table.get(), ids, bags, executor))) {
      run.outputs.push_back(bits);
    }
    std::vector<float> weight_grads(ids.size());
    const std::vector<float> output_grads = RandomFloats(3000 * options.output_dim, seed + 3);
    EXPECT_TRUE(IsOk(LookupWeightsGradient({{table.get(), ids.data(), bags, output_grads.data(),
                                             weight_grads.data(), VersionOf(*table)}},
                                           executor)));
    for (const uint32_t bits : Bits(weight_grads)) run.outputs.push_back(bits);
    const std::vector<float> grads = RandomFloats(splits.back() * options.output_dim, seed + 4);
    EXPECT_TRUE(IsOk(Apply(table.get(), {0.01f, 0.01f}, ids, grads, executor)));
  }
  run.table = ExportAll(*table);
  return run;
}

TEST(ThreadCount, ChangesNoBitOfATrainingRun) {
  for (const int64_t dim : {1, 5, 33}) {
    for (const TableOptions& options :
         {Dynamic(dim), Options(5000, dim), Packed(Dynamic(dim), kPackedTypes[0]),
          Packed(Options(5000, dim), kPackedTypes[2])}) {
      const Trained one = Train(options, Inline());
      EXPECT_GT(one.table.size(), 4900u);
      for (const auto& [threads, piece] : {std::pair{1, 1}, {2, 1}, {4, 3}}) {
        ThreadExecutor executor(threads, piece);
        const Trained many = Train(options, &executor);
        EXPECT_EQ(many.outputs, one.outputs) << threads << " threads";
        EXPECT_EQ(many.table, one.table) << threads << " threads";
      }
    }
  }
}

TEST(ThreadCount, ChangesNoBitOfAnImport) {
  const int64_t n = 30000;
  const std::vector<int64_t> keys = RandomIds(n, 0, 9999, 1);  // many repeats: the last one stays
  const std::vector<float> records = RandomFloats(n * 6, 2);
  const auto import = [&](Executor* executor) {
    const auto table = OpenWithRule(Dynamic(3), AdagradRule(0.1));
    EXPECT_TRUE(IsOk(ImportAll(table.get(), keys, records, executor)));
    return ExportAll(*table);
  };
  const Exported one = import(Inline());
  ThreadExecutor executor(4);
  EXPECT_EQ(import(&executor), one);
  for (int64_t i = n - 1; i > n - 50; --i) {
    bool later = false;
    for (int64_t j = i + 1; j < n; ++j)
      later |= keys[static_cast<size_t>(j)] == keys[static_cast<size_t>(i)];
    if (later) continue;
    EXPECT_EQ(one.at(keys[static_cast<size_t>(i)]).record,
              std::vector<float>(records.begin() + i * 6, records.begin() + (i + 1) * 6));
  }
}

TEST(ThreadCount, ChangesNoBitOverALowerTier) {
  const auto train = [](Executor* executor) {
    const auto table = OpenWithRule(Dynamic(4), AdagradRule(0.1));
    EXPECT_TRUE(IsOk(AddLowerTier(table.get(), std::make_unique<DramStore>(32))));
    for (int64_t step = 1; step <= 4; ++step) {
      const auto seed = static_cast<uint64_t>(step);
      const std::vector<int64_t> ids = RandomIds(20000, 0, 5000, seed);
      EXPECT_TRUE(IsOk(Apply(table.get(), {0.1f}, ids, RandomFloats(80000, seed), executor)));
      EXPECT_TRUE(IsOk(Demote(table.get(), ids.data(), 10000)));
    }
    return ExportAll(*table);
  };
  ThreadExecutor executor(4);
  EXPECT_EQ(train(&executor), train(Inline()));
}

// The keys that are in the first tier after every few of many steps over an SSD.
using Held = std::vector<std::vector<int64_t>>;

Held TrainOverSsd(const std::string& strategy, const char* eviction_threads, Executor* executor) {
  constexpr int64_t kKeys = 30000;
  const TempFolder folder;
  TableOptions options = Dynamic(32);
  // Eight shards, of some hundred rows each.
  options.storage = {{"ssdhash"}, {2 << 20, int64_t{1} << 30}, folder / "rows", strategy};
  ::setenv("KERAS_SPARSE_EVICTION_THREADS", eviction_threads, 1);
  const auto table = OpenWithRule(options, AdagradRule(0.1));
  ::unsetenv("KERAS_SPARSE_EVICTION_THREADS");
  Held held;
  for (int64_t step = 1; step <= 30; ++step) {
    const auto seed = static_cast<uint64_t>(step);
    std::vector<int64_t> ids = RandomIds(1000, 0, kKeys - 1, seed);
    for (const int64_t id : RandomIds(500, 0, 3000, seed)) ids.push_back(id);
    (void)Lookup(table.get(), ids, executor);
    EXPECT_TRUE(IsOk(Apply(table.get(), {0.1f}, ids, RandomFloats(1500 * 32, seed), executor)));
    if (step % 6 != 0) continue;
    const std::vector<float> rows = RandomFloats(1500 * 32, seed + 1);
    EXPECT_TRUE(IsOk(ImportAll(table.get(), ids, rows, executor)));
    EXPECT_TRUE(IsOk(EraseRows(table.get(), ids.data() + 900, 200, executor)));
    held.emplace_back();
    for (int64_t key = 0; key < kKeys; ++key) {
      if (CountInFirstTier(*table, &key, 1) == 1) held.back().push_back(key);
    }
  }
  EXPECT_GT(NumRowsOf(*table), 2 * static_cast<int64_t>(held.back().size()));
  return held;
}

TEST(ThreadCount, ChangesNoKeyOfTheFirstTier) {
  for (const char* strategy : {"LRU", "LFU"}) {
    const Held one = TrainOverSsd(strategy, "0", Inline());
    EXPECT_GT(one.back().size(), 3000u);
    ThreadExecutor four(4);
    EXPECT_EQ(TrainOverSsd(strategy, "0", &four), one) << strategy;
    EXPECT_EQ(TrainOverSsd(strategy, "2", &four), one) << strategy << ", in the background";
  }
}

}  // namespace keras_sparse::thread_count_test
