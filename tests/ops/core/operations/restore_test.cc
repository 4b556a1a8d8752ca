// RestoreSteps: a table goes on where a saved one was.

#include "ops/core/operations/clear_rows.h"
#include "ops/core/record/packed_record.h"
#include "ops/core/table/table_locks.h"
#include "tests/ops/core/support/all_rule_cases.h"
#include "tests/ops/core/support/snapshot_testing.h"

namespace keras_sparse::restore_test {

TableOptions WithAges(int64_t dim, const RecordTypes& types = {}) {
  TableOptions options = Packed(Dynamic(dim), types);
  options.keeps.gradient_step = true;
  return options;
}

// Some of 60 keys in each step.
void Train(EmbeddingTable* table, const RuleCase& rule, int64_t first, int64_t last) {
  TrainSome(table, rule, first, last, 9);
}

// Raw records, in pieces of `piece`. Imports take float records.
void ImportRaw(EmbeddingTable* table, const StoredRecords& records, size_t piece) {
  ThreadExecutor executor(2);
  const auto [layout, width] = [&] {
    const ReadLocks locks({table});
    return std::pair(locks[0].layout(), locks[0].rule().float_layout().record_words());
  }();
  std::vector<int64_t> keys;
  std::vector<float> words;
  const auto import_piece = [&] {
    if (keys.empty()) return;
    ASSERT_TRUE(IsOk(ImportAll(table, keys, words, &executor)));
    keys.clear();
    words.clear();
  };
  for (const auto& [key, record] : records) {
    keys.push_back(key);
    const size_t begin = words.size();
    words.resize(begin + static_cast<size_t>(width));
    std::vector<float> raw(record.size() / 4);
    std::memcpy(raw.data(), record.data(), record.size());
    UnpackRecord(layout, raw.data(), words.data() + begin);
    if (keys.size() == piece) import_piece();
  }
  import_piece();
}

void CheckThatItGoesOn(const RuleCase& rule, const RecordTypes& types) {
  const TempFolder folder;
  const TableOptions plain = WithAges(5, types);
  TableOptions tiered = plain;
  tiered.storage = {{"ssdhash"}, {1, int64_t{1} << 30}, folder / "rows", "LRU"};
  const auto saved = OpenWithRule(plain, rule.options);
  Train(saved.get(), rule, 0, 40);
  const StoredRecords old = ExportRaw(saved.get());
  Train(saved.get(), rule, 40, 50);
  for (const TableOptions& options : {plain, tiered}) {
    const auto restored = OpenWithRule(options, rule.options);
    Train(restored.get(), rule, 0, 3);
    ASSERT_TRUE(IsOk(RestoreSteps(restored.get(), HistoryOf(*saved), Inline())));
    EXPECT_EQ(NumRowsOf(*restored), 0);
    // As a delta does: what is old first.
    ImportRaw(restored.get(), old, 7);
    ImportRaw(restored.get(), ExportRaw(saved.get()), 7);
    EXPECT_EQ(ExportRaw(restored.get()), ExportRaw(saved.get()));
    const auto going_on = OpenWithRule(plain, rule.options);
    Train(going_on.get(), rule, 0, 60);
    Train(restored.get(), rule, 50, 60);
    EXPECT_EQ(ExportAll(*restored), ExportAll(*going_on));
    ExportedRows ages;
    ASSERT_TRUE(IsOk(ExportRows(*restored, 0, 1, &ages)));
    EXPECT_EQ(ages.ages.size(), ages.keys.size());
  }
}

class RestoreOfEachRule : public ::testing::TestWithParam<RuleCase> {};

// Random rounding goes on with the step, too.
TEST_P(RestoreOfEachRule, GoesOnBitForBit) {
  for (const RecordTypes& types : {RecordTypes(), kPackedTypes[0], kPackedTypes[3]}) {
    SCOPED_TRACE(NameOf(types));
    CheckThatItGoesOn(GetParam(), types);
  }
}

INSTANTIATE_TEST_SUITE_P(All, RestoreOfEachRule, ::testing::ValuesIn(AllRuleCases()),
                         [](const auto& instance) { return instance.param.name; });

TEST(Restore, KeepsAHistoryThatIsLargeUntilAllRowsAreThere) {
  const RuleCase rule = AdamCase("adam", "adam");
  const auto saved = OpenWithRule(Dynamic(4), rule.options);
  Train(saved.get(), rule, 0, 1);
  const StoredRecords old = ExportRaw(saved.get());
  RuleHistory history = HistoryOf(*saved);
  for (int64_t i = 1; i < 30000; ++i) {  // more than what a few rows are worth
    const std::vector<float> numbers = rule.Numbers({i + 1, 0.01 + 1e-6 * static_cast<double>(i)});
    history.run_lengths.push_back(1);
    history.numbers.insert(history.numbers.end(), numbers.begin(), numbers.end());
    ++history.step;
  }
  const auto restored = OpenWithRule(Dynamic(4), rule.options);
  ASSERT_TRUE(IsOk(RestoreSteps(restored.get(), history, Inline())));
  ImportRaw(restored.get(), old, 3);
  ASSERT_TRUE(IsOk(EraseRows(restored.get(), {1})));
  ImportRaw(restored.get(), old, 5);
  EXPECT_EQ(ExportRaw(restored.get()), old);
  EXPECT_EQ(HistoryOf(*restored).first_step, 0);
  Train(restored.get(), rule, 30000, 30001);
  EXPECT_EQ(HistoryOf(*restored).first_step, 30001) << "and not longer";
}

TEST(Restore, RefusesWhatIsNoHistoryOfTheRuleAndChangesNothing) {
  const RuleCase rule = AdamCase("adam", "adam");
  const auto table = OpenWithRule(Dynamic(4), rule.options);
  Train(table.get(), rule, 0, 5);
  const StoredRecords before = ExportRaw(table.get());
  RuleHistory history = HistoryOf(*table);
  history.run_lengths.push_back(1);
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "`run_lengths` must be the steps",
                        RestoreSteps(table.get(), history, Inline())));
  EXPECT_EQ(ExportRaw(table.get()), before);
}

TEST(Restore, RefusesRecordsOfStepsThatItDoesNotKnow) {
  const RuleCase rule = AdamCase("adam", "adam");
  const auto table = OpenWithRule(Dynamic(4), rule.options);
  Train(table.get(), rule, 0, 5);
  RuleHistory history = HistoryOf(*table);
  history.first_step = history.step = 1000;
  history.run_lengths.clear();
  history.numbers.clear();
  ASSERT_TRUE(IsOk(RestoreSteps(table.get(), history, Inline())));
  std::vector<float> record(13);
  const uint32_t step = 999;
  std::memcpy(&record[12], &step, sizeof(step));
  const int64_t key = 1;
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "must be in [1000, 1000] modulo 2^32",
                        ImportRows(table.get(), &key, 1, record.data(), 13, Inline())));
  EXPECT_EQ(NumRowsOf(*table), 0);
}

TEST(Restore, OfATableWithoutARuleKeepsItsAges) {
  const auto saved = Open(WithAges(4));
  const auto restored = Open(WithAges(4));
  const std::vector<int64_t> keys = {1, 2};
  const std::vector<uint32_t> ages = {5, 0};
  ASSERT_TRUE(IsOk(ImportRows(saved.get(), keys.data(), 2, RandomFloats(8, 1).data(), 4, Inline(),
                              ages.data())));
  ASSERT_TRUE(IsOk(RestoreSteps(restored.get(), HistoryOf(*saved), Inline())));
  ImportRaw(restored.get(), ExportRaw(saved.get()), 9);
  EXPECT_EQ(ExportRaw(restored.get()), ExportRaw(saved.get()));
}

}  // namespace keras_sparse::restore_test
