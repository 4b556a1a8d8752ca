// What the core reads that other processes, files and callers have made, changed at random.

#include "ops/core/exchange/packed_slices.h"
#include "ops/core/exchange/whole_batches.h"
#include "ops/core/operations/clear_rows.h"
#include "ops/core/operations/table_snapshot.h"
#include "ops/core/optimizer/saved_rule.h"
#include "tests/ops/core/exchange/exchange_testing.h"
#include "tests/ops/core/support/adam_rule_cases.h"
#include "tests/ops/core/support/check_store.h"
#include "tests/ops/core/support/filter_testing.h"
#include "tests/ops/core/support/fuzzing.h"

namespace keras_sparse::fuzz_test {

// --- What ranks send each other ------------------------------------------------------------------

// Static by columns on both ranks, dynamic by rows, and one that is zeros outside.
std::vector<PlacedTable> Tables() {
  return {{9, 6, {0, 1}, {2, 4}}, {-1, 3, {}, {}, true}, {5, 2, {1}, {2}, false, true}};
}

std::vector<std::vector<Ids>> Batches() {
  const Ids single = {0, {3, 8, 3}, Combiner::kNone, {}, {}};
  const Ids none = {1, {}, Combiner::kNone, {}, {}};
  const Ids bags = {1, {4, -7, 4, 9, 1 << 20, 2}, Combiner::kMean, {0, 0, 4, 6}, {}};
  const Ids weighted = {1, {5, 6, 5}, Combiner::kSum, {0, 2, 3}, {1, 2, 0.5f}};
  const Ids outside = {2, {-1, 99, 4, 4, 4, 1}, Combiner::kSum, {0, 6}, {}};
  return {{single, bags}, {weighted, outside, single}, {none}};
}

Parser OfLayouts() {
  const auto parse = [](const Pieces& pieces) {
    ExchangeLayout layout;
    return ExchangeLayout::Read(Values<int64_t>(pieces[0]), {"a", "b", "c"}, "exchange", {},
                                &layout);
  };
  return {{{Bytes(LayoutNumbers(Tables(), 2, 1))}, {Bytes(LayoutNumbers(Tables(), 2, 0))}}, parse};
}

Parser OfLookups() {
  const auto rank = std::make_shared<Rank>(Tables(), 2, 0);
  std::vector<Pieces> inputs;
  for (const std::vector<Ids>& batch : Batches()) {
    const Ids& ids = batch[0];
    inputs.push_back({Bytes<int64_t>({static_cast<int64_t>(ids.table)}), Bytes(ids.ids),
                      Bytes(ids.splits), Bytes(ids.weights)});
  }
  const auto parse = [rank](const Pieces& pieces) {
    Ids ids;
    const auto tables = Values<int64_t>(pieces[0]);
    ids.table = tables.empty() ? 0 : static_cast<uint64_t>(tables[0]) % Tables().size();
    ids.ids = Values<int64_t>(pieces[1]);
    ids.splits = Values<int64_t>(pieces[2]);
    if (!ids.splits.empty()) ids.combiner = Combiner::kSum;
    ids.weights = Values<float>(pieces[3]);
    ids.weights.resize(ids.weights.empty() ? 0 : ids.ids.size());
    std::vector<std::vector<Word>> blocks;
    return rank->Request({ids}, Inline(), &blocks);
  };
  return {inputs, parse};
}

Parser OfRequests() {
  const auto rank = std::make_shared<Rank>(Tables(), 2, 1);
  std::vector<Pieces> inputs;
  for (const std::vector<Ids>& batch : Batches()) {
    std::vector<std::vector<Word>> of_rank_0, of_rank_1;
    EXPECT_TRUE(IsOk(Rank(Tables(), 2, 0).Request(batch, Inline(), &of_rank_0)));
    EXPECT_TRUE(IsOk(rank->Request(batch, Inline(), &of_rank_1)));
    inputs.push_back({Bytes(of_rank_0[1]), Bytes(of_rank_1[1])});
  }
  const auto parse = [rank](const Pieces& pieces) {
    std::vector<std::vector<Word>> replies;
    KERAS_SPARSE_RETURN_IF_ERROR(
        rank->Serve({Values<Word>(pieces[0]), Values<Word>(pieces[1])}, Inline(), &replies));
    std::vector<std::vector<float>> grads;
    for (size_t r = 0; r < 2; ++r) {
      grads.emplace_back(static_cast<size_t>(rank->served().num_floats(r)));
    }
    rank->Gather(grads, Inline());
    return Status::Ok();
  };
  return {inputs, parse};
}

Parser OfWholeBatches() {
  const auto rank = std::make_shared<Rank>(Tables(), 2, 1);
  std::vector<Word> good(kHeaderWords);
  WriteStatus(Status::Ok(), rank->layout().checksum, good.data());
  WriteBatchSize(4, good.data());
  const auto parse = [rank](const Pieces& pieces) {
    std::vector<std::vector<Word>> words;
    std::vector<Block> blocks;
    for (const std::string& each : pieces) {
      words.push_back(Values<Word>(each));
      blocks.push_back({words.back().data(), static_cast<int64_t>(words.back().size())});
    }
    int64_t num_own_samples = -1;
    KERAS_SPARSE_RETURN_IF_ERROR(CheckWholeBatches(rank->layout(), blocks, &num_own_samples));
    EXPECT_GE(num_own_samples, 0);
    return Status::Ok();
  };
  return {{{Bytes(good), Bytes(good)}}, parse};
}

Parser OfPackedSlices() {
  const std::vector<int64_t> widths = {2, 1};
  const std::vector<int64_t> ids = {7, -1};
  const std::vector<float> values = {1, 2, 3, 4};
  const std::vector<RowSlices> tables = {{ids.data(), values.data(), 2, 2},
                                         {ids.data(), values.data(), 1, 1}};
  std::vector<int32_t> packed(1 + 2 + 2 * 2 + 4 + 2 + 1);
  PackSlices(tables, 1, packed.data());
  const std::string rank = Bytes(packed);
  const auto parse = [widths](const Pieces& pieces) {
    const auto words = Values<int32_t>(pieces[0]);
    PackedSlices slices;
    KERAS_SPARSE_RETURN_IF_ERROR(PackedSlices::Open(
        words.data(), static_cast<int64_t>(words.size()), widths, /*num_ranks=*/2, &slices));
    for (size_t t = 0; t < widths.size(); ++t) {
      std::vector<int64_t> read_ids(static_cast<size_t>(slices.num_ids(t)));
      std::vector<float> read_values(read_ids.size() * static_cast<size_t>(widths[t]));
      slices.Copy(t, read_ids.data(), read_values.data());
    }
    return Status::Ok();
  };
  return {{{rank + rank}}, parse};
}

// --- Files ---------------------------------------------------------------------------------------

constexpr int64_t kRecordBytes = 8;
constexpr int64_t kEntries = 40;

Parser OfSegments() {
  const auto folder = std::make_shared<TempFolder>();
  std::shared_ptr<SsdSegment> segment;
  EXPECT_TRUE(
      IsOk(SsdSegment::Create(FileSystem::Posix(), *folder / "own", 7, EntryLayout{kRecordBytes},
                              /*direct_io=*/false, &segment)));
  for (int64_t key = 0; key < kEntries; ++key) {
    EXPECT_TRUE(IsOk(segment->Append(key, MakeRecord(key, 1, kRecordBytes).data())));
  }
  EXPECT_TRUE(IsOk(segment->Seal()));
  std::ifstream file(*folder / "own", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto parse = [folder](const Pieces& pieces) {
    const std::string path = *folder / "changed";
    std::ofstream(path, std::ios::binary | std::ios::trunc) << pieces[0];
    bool is_alive[kEntries];
    std::fill(is_alive, is_alive + kEntries, true);
    std::vector<int64_t> keys;
    std::vector<char> records;
    KERAS_SPARSE_RETURN_IF_ERROR(ReadSegment(FileSystem::Posix(), path, kRecordBytes, 0, is_alive,
                                             kEntries, &keys, &records));
    EXPECT_EQ(static_cast<int64_t>(keys.size()), kEntries);
    // A checksum holds a key and its record together, though not their place in the file.
    for (size_t i = 0; i < keys.size(); ++i) {
      EXPECT_EQ(std::string(records.data() + i * kRecordBytes, kRecordBytes),
                MakeRecord(keys[i], 1, kRecordBytes));
    }
    return Status::Ok();
  };
  return {{{bytes}}, parse};
}

// A table's history and records as they lay in it.
Parser OfSavedRules() {
  const RuleCase rule_case = AdamCase("adam", "adam");
  RuleOptions options = rule_case.options;
  options.dim = 3;
  const auto trained = OpenWithRule(Dynamic(3), options);
  for (int64_t step = 1; step <= 5; ++step) {
    const std::vector<int64_t> ids = {step % 3, 7};
    EXPECT_TRUE(IsOk(Apply(trained.get(), rule_case.Numbers({step, step < 3 ? 0.1 : 0.2}), ids,
                           RandomFloats(6, static_cast<uint64_t>(step)))));
  }
  const RuleHistory saved = HistoryOf(*trained);
  RawRows rows;
  EXPECT_TRUE(IsOk(TableSnapshot(trained.get()).Export({}, 0, 100, &rows)));
  const Pieces good = {Bytes<int64_t>({saved.first_step, saved.step, saved.num_numbers}),
                       Bytes(saved.run_lengths), Bytes(saved.numbers), Bytes(rows.records)};
  const int64_t words = rows.record_bytes / 4;
  const auto restored =
      std::make_shared<std::unique_ptr<EmbeddingTable>>(OpenWithRule(Dynamic(3), options));
  const auto parse = [options, words, restored](const Pieces& pieces) {
    std::vector<int64_t> steps = Values<int64_t>(pieces[0]);
    steps.resize(3);
    RuleHistory history;
    history.first_step = steps[0];
    history.step = steps[1];
    history.num_numbers = steps[2];
    history.run_lengths = Values<int64_t>(pieces[1]);
    // Steps are taken again one by one, in nanoseconds each: billions of them are no fault.
    for (int64_t& length : history.run_lengths) length = std::min<int64_t>(length, 1000);
    history.numbers = Values<float>(pieces[2]);
    std::vector<float> raw = Values<float>(pieces[3]);
    const int64_t n = static_cast<int64_t>(raw.size()) / words;
    std::unique_ptr<SavedRule> rule;
    KERAS_SPARSE_RETURN_IF_ERROR(SavedRule::Open(options, history, &rule));
    std::vector<float> records(static_cast<size_t>(n * rule->layout().record_floats()));
    const Status caught_up = rule->CatchUp(raw.data(), n, words, records.data(), Inline());
    EmbeddingTable* table = restored->get();
    EXPECT_TRUE(IsOk(RestoreSteps(table, history, Inline())));
    std::vector<int64_t> keys(static_cast<size_t>(n));
    for (size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<int64_t>(i);
    const Status imported = ImportRows(table, keys.data(), n, raw.data(), words, Inline());
    EXPECT_EQ(imported.code(), caught_up.code()) << imported.message() << caught_up.message();
    Lookup(table, keys);
    return imported;
  };
  return {{good}, parse};
}

Parser OfFilters(const FilterOptions& options) {
  const std::shared_ptr<AdmissionFilter> filter = Make(options);
  for (const int64_t key : {1, 2, 2, 3, 3, 3, -9}) filter->Admit(key, 1);
  const FilterEntries entries = Entries(*filter);
  const auto parse = [filter](const Pieces& pieces) {
    const auto keys = Values<int64_t>(pieces[0]);
    const auto counts = Values<uint32_t>(pieces[1]);
    filter->Clear();
    KERAS_SPARSE_RETURN_IF_ERROR(filter->Restore(
        keys.data(), counts.data(), static_cast<int64_t>(std::min(keys.size(), counts.size()))));
    for (const int64_t key : keys) filter->Admit(key, 1);
    return Status::Ok();
  };
  return {{{Bytes(entries.keys), Bytes(entries.counts)}}, parse};
}

// --- Calls ---------------------------------------------------------------------------------------

Parser OfUpdates(int64_t input_dim) {
  const std::shared_ptr<EmbeddingTable> table =
      OpenWithRule(Options(input_dim, 2), AdagradRule(0.1));
  const auto parse = [table](const Pieces& pieces) {
    const auto ids = Values<int64_t>(pieces[0]);
    auto splits = Values<int64_t>(pieces[1]);
    if (splits.empty()) splits = {0};
    Bags bags = BagsOf(Combiner::kMean, splits);
    bags.num_ids = static_cast<int64_t>(ids.size());
    std::vector<float> floats = Values<float>(pieces[2]);
    floats.resize(static_cast<size_t>(bags.num_bags * table->dim()));
    KERAS_SPARSE_RETURN_IF_ERROR(
        ApplyGradients({Request(table.get(), ids, bags, floats)}, Inline()));
    EXPECT_TRUE(IsOk(LookupRows({{table.get(), ids.data(), bags, floats.data()}}, Inline())));
    return ClearRows(table.get(), Inline());
  };
  return {{{Bytes<int64_t>({3, 8, 3, 0}), Bytes<int64_t>({0, 1, 1, 4}), Bytes(RandomFloats(6, 1))}},
          parse};
}

struct Case {
  std::string name;
  std::function<Parser()> make;
};
void PrintTo(const Case& param, std::ostream* stream) { *stream << param.name; }

class Fuzz : public ::testing::TestWithParam<Case> {};

TEST_P(Fuzz, TakesOrRefusesWhateverItIs) { TakesOrRefuses(GetParam().make()); }

INSTANTIATE_TEST_SUITE_P(
    Inputs, Fuzz,
    ::testing::Values(Case{"Layouts", OfLayouts}, Case{"Lookups", OfLookups},
                      Case{"Requests", OfRequests}, Case{"WholeBatches", OfWholeBatches},
                      Case{"PackedSlices", OfPackedSlices}, Case{"Segments", OfSegments},
                      Case{"SavedRules", OfSavedRules},
                      Case{"CounterFilter", [] { return OfFilters(Counter(5)); }},
                      Case{"CbfFilter", [] { return OfFilters(Cbf(5, 100, 0.1, 8)); }},
                      Case{"StaticUpdates", [] { return OfUpdates(9); }},
                      Case{"DynamicUpdates", [] { return OfUpdates(-1); }}),
    [](const auto& param) { return param.param.name; });

}  // namespace keras_sparse::fuzz_test
