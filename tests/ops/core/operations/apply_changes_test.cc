// ApplyChanges: a table in use follows a saved one that is trained on.

#include "ops/core/operations/clear_rows.h"
#include "tests/ops/core/support/all_rule_cases.h"
#include "tests/ops/core/support/snapshot_testing.h"

namespace keras_sparse::apply_changes_test {

constexpr int64_t kDim = 4;

// Some of 60 keys in each step.
void Train(EmbeddingTable* table, const RuleCase& rule, int64_t first, int64_t last) {
  TrainSome(table, rule, first, last, 13);
}

// What a delta has of a table, and gives to ApplyChanges in one piece.
struct Delta {
  RuleHistory history;
  std::vector<int64_t> erased;
  std::vector<int64_t> keys;
  std::vector<float> records;

  // Takes it, and lets changes count from here.
  explicit Delta(EmbeddingTable* table, const RawSelection& selection = kChanged)
      : history(HistoryOf(*table)) {
    for (const auto& [key, record] : ExportRaw(table, selection)) {
      keys.push_back(key);
      const size_t begin = records.size();
      records.resize(begin + record.size() / 4);
      std::memcpy(records.data() + begin, record.data(), record.size());
    }
    erased = TableSnapshot(table).ErasedKeys();
    EXPECT_TRUE(IsOk(MarkSaved(table)));
  }

  SavedChange change() const {
    const auto n = static_cast<int64_t>(keys.size());
    const int64_t width = n == 0 ? kDim : static_cast<int64_t>(records.size()) / n;
    return {erased.data(), static_cast<int64_t>(erased.size()), keys.data(), records.data(), n,
            width};
  }
};

// A table on two tiers that has what `saved` has, and its history.
std::unique_ptr<EmbeddingTable> Load(EmbeddingTable* saved, const RuleCase& rule,
                                     const TempFolder& folder) {
  TableOptions options = Dynamic(kDim);
  options.storage = {{"ssdhash"}, {1, int64_t{1} << 30}, folder / "rows", "LRU"};
  auto table = OpenWithRule(options, rule.options);
  const Delta all(saved, {});
  const SavedChange change = all.change();
  EXPECT_TRUE(IsOk(RestoreSteps(table.get(), all.history, Inline())));
  EXPECT_TRUE(
      IsOk(ImportRows(table.get(), change.keys, change.n, change.records, change.width, Inline())));
  return table;
}

class ApplyChangesOfEachRule : public ::testing::TestWithParam<RuleCase> {};

TEST_P(ApplyChangesOfEachRule, FollowsATrainingBitForBit) {
  const RuleCase& rule = GetParam();
  const TempFolder folder;
  const auto trained = OpenWithRule(Dynamic(kDim), rule.options);
  Train(trained.get(), rule, 0, 10);
  const auto followed = Load(trained.get(), rule, folder);
  for (const int64_t step : {10, 30, 31}) {
    ASSERT_TRUE(IsOk(EraseRows(trained.get(), {3, step})));
    Train(trained.get(), rule, step, step + 7);
    ASSERT_TRUE(IsOk(EraseRows(trained.get(), {5})));
    const Delta delta(trained.get());
    ASSERT_TRUE(IsOk(ApplyChanges(followed.get(), delta.history, {delta.change()}, Inline())));
    EXPECT_EQ(ExportRaw(followed.get()), ExportRaw(trained.get()));
    EXPECT_EQ(ExportAll(*followed), ExportAll(*trained));
    if (step == 30) continue;
    // Two deltas at once.
    Train(trained.get(), rule, step + 7, step + 8);
    const Delta first(trained.get());
    ASSERT_TRUE(IsOk(EraseRows(trained.get(), {7})));
    const Delta second(trained.get());
    ASSERT_TRUE(IsOk(
        ApplyChanges(followed.get(), second.history, {first.change(), second.change()}, Inline())));
    EXPECT_EQ(ExportAll(*followed), ExportAll(*trained));
  }
}

INSTANTIATE_TEST_SUITE_P(All, ApplyChangesOfEachRule, ::testing::ValuesIn(AllRuleCases()),
                         [](const auto& instance) { return instance.param.name; });

TEST(ApplyChanges, AreSeenWholeOrNotAtAllStress) {
  const RuleCase rule = AdamCase("adam", "adam");
  const TempFolder folder;
  const auto trained = OpenWithRule(Dynamic(kDim), rule.options);
  Train(trained.get(), rule, 0, 10);
  const auto followed = Load(trained.get(), rule, folder);
  const std::vector<int64_t> keys = Range(0, 60);
  std::vector<std::vector<float>> states = {Lookup(trained.get(), keys)};
  std::vector<Delta> deltas;
  for (int64_t step = 10; step < 60; step += 5) {
    Train(trained.get(), rule, step, step + 5);
    ASSERT_TRUE(IsOk(EraseRows(trained.get(), {step})));
    deltas.emplace_back(trained.get());
    states.push_back(Lookup(trained.get(), keys));
  }
  std::atomic<bool> is_done = false;
  std::vector<std::thread> readers;
  std::atomic<int64_t> num_read = 0;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      size_t state = 0;
      while (state + 1 < states.size() && !is_done) {
        const std::vector<float> rows = Lookup(followed.get(), keys);
        while (state + 1 < states.size() && rows != states[state]) ++state;
        EXPECT_EQ(rows, states[state]) << "rows of no state, or of an earlier one";
        ++num_read;
      }
    });
  }
  for (const Delta& delta : deltas) {
    const int64_t before = num_read;
    while (num_read < before + 2) std::this_thread::yield();
    EXPECT_TRUE(IsOk(ApplyChanges(followed.get(), delta.history, {delta.change()}, Inline())));
  }
  while (Lookup(followed.get(), keys) != states.back() && !::testing::Test::HasFailure()) {
  }
  is_done = true;
  for (std::thread& reader : readers) reader.join();
}

TEST(ApplyChanges, RefusesWhatDoesNotGoOnAndChangesNothing) {
  const RuleCase rule = AdamCase("adam", "adam");
  const auto trained = OpenWithRule(Options(60, kDim), rule.options);
  Train(trained.get(), rule, 0, 10);
  const StoredRecords before = ExportRaw(trained.get());
  const Delta delta(trained.get(), {});
  const auto expect_refused = [&](const char* words, const RuleHistory& history,
                                  const SavedChange& change) {
    EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, words,
                          ApplyChanges(trained.get(), history, {change}, Inline())));
    EXPECT_EQ(ExportRaw(trained.get()), before);
    EXPECT_EQ(HistoryOf(*trained).step, 10);
  };
  RuleHistory earlier = delta.history;
  earlier.step -= 1;
  earlier.run_lengths.back() -= 1;
  expect_refused("must reach back as far", earlier, delta.change());
  RuleHistory forgotten = delta.history;
  forgotten.first_step = forgotten.step;
  forgotten.run_lengths.clear();
  forgotten.numbers.clear();
  expect_refused("must reach back as far", forgotten, delta.change());
  SavedChange outside = delta.change();
  const std::vector<int64_t> keys(static_cast<size_t>(outside.n), 60);
  outside.keys = keys.data();
  expect_refused("must be in [0, 60)", delta.history, outside);
  SavedChange narrow = delta.change();
  narrow.width = 3;
  expect_refused("Received: 3", delta.history, narrow);
  std::vector<float> records = delta.records;
  const uint32_t step = 11;
  std::memcpy(&records[static_cast<size_t>(delta.change().width - 1)], &step, sizeof(step));
  SavedChange later = delta.change();
  later.records = records.data();
  expect_refused("modulo 2^32", delta.history, later);
  SavedChange erasing = delta.change();
  erasing.erased = erasing.keys;
  erasing.num_erased = 1;
  EXPECT_TRUE(FailsWith(StatusCode::kUnimplemented, "keeps all its rows",
                        ApplyChanges(trained.get(), delta.history, {erasing}, Inline())));
  EXPECT_EQ(ExportRaw(trained.get()), before);
}

}  // namespace keras_sparse::apply_changes_test
