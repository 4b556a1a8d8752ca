// Tables of 16-bit rows and slots: what they store, what lookups read, what is saved.
#include "ops/core/optimizer/saved_rule.h"
#include "tests/ops/core/support/all_rule_cases.h"
#include "tests/ops/core/support/snapshot_testing.h"
#include "tests/ops/core/support/table_testing.h"

namespace keras_sparse::packed_table_test {

// A table that keeps float32, calls its rule on it, and rounds each number once a step.
class PackedModel {
 public:
  PackedModel(const TableOptions& options, RuleOptions rule) : options_(options) {
    rule.dim = options.output_dim;
    EXPECT_TRUE(IsOk(UpdateRule::Create(rule, &rule_)));
    for (int64_t id = 0; id < options.input_dim; ++id) records_[id] = Initial(id);
  }

  void Step(const std::vector<float>& numbers, const std::vector<int64_t>& ids,
            const std::vector<float>& grads) {
    rule_->BeginStep(numbers);
    for (const auto& [id, gradient] : Merge(ids, grads)) {
      const auto found = records_.try_emplace(id, Initial(id)).first;
      float* record = found->second.data();
      const float* g = gradient.data();
      rule_->CatchUp(record);
      rule_->Update(&record, &g, 1);
      Round(record, options_.rounds_randomly ? &id : nullptr);
    }
    rule_->FinishStep();
  }

  bool Holds(int64_t id) const { return options_.owned_keys().Hold(id); }

  // Row and slots as they read now, of a key with or without a row.
  std::vector<float> Read(int64_t id) const {
    const auto found = records_.find(id);
    std::vector<float> record = found == records_.end() ? Initial(id) : found->second;
    rule_->CatchUp(record.data());
    Round(record.data(), nullptr);
    record.resize(static_cast<size_t>(rule_->layout().record_floats()));
    return record;
  }
  std::vector<float> Rows(const std::vector<int64_t>& ids) const {
    std::vector<float> rows;
    for (const int64_t id : ids) {
      std::vector<float> row(dim());
      if (Holds(id)) row = Read(id);
      rows.insert(rows.end(), row.begin(), row.begin() + static_cast<std::ptrdiff_t>(dim()));
    }
    return rows;
  }
  Exported All() const {
    Exported all;
    for (const auto& [id, record] : records_) all[id] = {Read(id)};
    return all;
  }

 private:
  size_t dim() const { return static_cast<size_t>(options_.output_dim); }

  // The gradients of each id that the table holds, added in their order.
  std::map<int64_t, std::vector<float>> Merge(const std::vector<int64_t>& ids,
                                              const std::vector<float>& grads) const {
    std::map<int64_t, std::vector<float>> merged;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (!Holds(ids[i])) continue;
      auto& sum = merged[ids[i]];
      sum.resize(dim());
      for (size_t j = 0; j < dim(); ++j) sum[j] += grads[i * dim() + j];
    }
    return merged;
  }

  std::vector<float> Initial(int64_t id) const {
    std::vector<float> record = InitialRow(options_, id);
    record.resize(static_cast<size_t>(rule_->layout().record_words()));
    rule_->layout().InitializeSlots(record.data(), rule_->step());
    Round(record.data(), nullptr);
    return record;
  }

  // Rounds by the random numbers of a key in this step; without a key, to the nearest.
  void Round(float* record, const int64_t* id) const {
    const auto n = static_cast<int64_t>(dim());
    RoundPart(options_.types.row, 0, n, id, record);
    float* values = record + n;
    uint32_t part = 0;
    for (const Slot& slot : rule_->layout().slots()) {
      ++part;
      if (!slot.per_row) RoundPart(options_.types.slots, part, n, id, values);
      values += slot.per_row ? 1 : n;
    }
  }
  void RoundPart(FloatType type, uint32_t part, int64_t n, const int64_t* id, float* values) const {
    std::vector<char> stored(static_cast<size_t>(n * FloatBytes(type)));
    const InitializerOptions& whole = options_.initializer;
    if (id == nullptr) {
      WriteFloats(type, values, n, stored.data());
    } else {
      const auto key = static_cast<uint64_t>(*id * whole.key_stride + whole.key_offset);
      const auto bits = RandomBits::Of(static_cast<uint64_t>(whole.seed), key,
                                       static_cast<uint64_t>(rule_->step()));
      const auto first = (part << 24) + static_cast<uint32_t>(whole.first_column);
      WriteFloatsRandomly(type, values, n, bits, first, stored.data());
    }
    ReadFloats(type, stored.data(), n, values);
  }

  TableOptions options_;
  std::unique_ptr<UpdateRule> rule_;
  std::map<int64_t, std::vector<float>> records_;
};

// Ids outside a static table, and ids that a dynamic one has no row for.
constexpr int64_t kLowId = -3;
constexpr int64_t kHighId = 25;
constexpr int64_t kRows = 22;

TableOptions OptionsOf(bool is_static, int64_t dim, const RecordTypes& types, bool randomly) {
  TableOptions options = is_static ? Options(kRows, dim) : Dynamic(dim);
  options.out_of_range_is_zero = is_static;
  return Packed(options, types, randomly);
}

// A table and its model, which take the same steps.
struct Trained {
  Trained(const TableOptions& options, const RuleOptions& rule)
      : table(OpenWithRule(options, rule)), model(options, rule) {}

  // Ids repeat, and rows miss steps.
  void Step(const RuleCase& rule, int64_t step) {
    const auto seed = static_cast<uint64_t>(step);
    const std::vector<int64_t> ids = RandomIds(20, kLowId, kHighId - 3, seed);
    const std::vector<float> grads = RandomFloats(20 * table->dim(), seed);
    const std::vector<float> numbers = rule.Numbers({step, 0.1 / static_cast<double>(step)});
    ASSERT_TRUE(IsOk(Apply(table.get(), numbers, ids, grads)));
    model.Step(numbers, ids, grads);
  }

  std::unique_ptr<EmbeddingTable> table;
  PackedModel model;
};

class PackedTable : public ::testing::TestWithParam<RuleCase> {};

INSTANTIATE_TEST_SUITE_P(Rules, PackedTable, ::testing::ValuesIn(AllRuleCases()),
                         [](const auto& rule_case) { return rule_case.param.name; });

// A record that catches up with missed steps and takes another is rounded once for both. The part
// of a table has the random bits of its columns and keys in the whole table.
TEST_P(PackedTable, RoundsEachNumberOnceAStep) {
  const std::vector<int64_t> all = Range(kLowId, kHighId);
  for (const RecordTypes& types : kPackedTypes) {
    for (const int64_t dim : {1, 32, 33}) {
      for (const int options : {0, 1, 2, 3}) {
        SCOPED_TRACE(NameOf(types) + ", dim " + std::to_string(dim));
        TableOptions part = OptionsOf(options % 2 == 1, dim, types, options < 2);
        part.initializer.first_column = dim / 3;
        part.initializer.key_stride = dim;
        part.initializer.key_offset = dim - 1;
        Trained both(part, GetParam().options);
        for (int64_t step = 1; step <= 5; ++step) {
          both.Step(GetParam(), step);
          ASSERT_EQ(Bits(Lookup(both.table.get(), all)), Bits(both.model.Rows(all)));
        }
        ASSERT_EQ(ExportAll(*both.table, 7), both.model.All());
      }
    }
  }
}

// Records are saved as they are stored; who loads them reads what the table exports.
TEST_P(PackedTable, IsSavedAsItIsStored) {
  for (const RecordTypes& types : kPackedTypes) {
    SCOPED_TRACE(NameOf(types));
    constexpr int64_t kDim = 5;
    TableOptions options = OptionsOf(false, kDim, types, true);
    options.keeps = {true, true};
    Trained both(options, GetParam().options);
    for (int64_t step = 1; step <= 6; ++step) both.Step(GetParam(), step);
    RuleOptions rule = GetParam().options;
    rule.dim = kDim;
    rule.keeps = options.keeps;
    rule.types = types;
    std::unique_ptr<SavedRule> saved;
    ASSERT_TRUE(IsOk(SavedRule::Open(rule, HistoryOf(*both.table), &saved)));
    const Exported exported = ExportAll(*both.table);
    const StoredRecords raw = ExportRaw(both.table.get());
    ASSERT_EQ(raw.size(), exported.size());
    for (const auto& [key, bytes] : raw) {
      std::vector<float> words(bytes.size() / 4);
      std::memcpy(words.data(), bytes.data(), bytes.size());
      ExportedRow read{std::vector<float>(static_cast<size_t>(saved->layout().record_floats()))};
      ASSERT_TRUE(IsOk(saved->CatchUp(words.data(), 1, static_cast<int64_t>(words.size()),
                                      read.record.data(), Inline())));
      ASSERT_EQ(read, exported.at(key));
      // The halves that fill up a word.
      if (types.row == FloatType::kFloat32) continue;
      ASSERT_EQ(bytes.substr(2 * kDim, 2), std::string(2, '\0'));
    }
  }
}

TEST_P(PackedTable, ComesBackFromAnExport) {
  for (const RecordTypes& types : kPackedTypes) {
    for (const bool is_static : {false, true}) {
      SCOPED_TRACE(NameOf(types));
      const TableOptions options = OptionsOf(is_static, 7, types, true);
      Trained both(options, GetParam().options);
      for (int64_t step = 1; step <= 4; ++step) both.Step(GetParam(), step);
      const Exported exported = ExportAll(*both.table);
      std::vector<int64_t> keys;
      std::vector<float> records;
      for (const auto& [key, row] : exported) {
        keys.push_back(key);
        records.insert(records.end(), row.record.begin(), row.record.end());
      }
      const auto copy = OpenWithRule(options, GetParam().options);
      ASSERT_TRUE(IsOk(ImportAll(copy.get(), keys, records)));
      ASSERT_EQ(ExportAll(*copy), exported);
      // Into the table itself too, whose records have missed steps.
      ASSERT_TRUE(IsOk(ImportAll(both.table.get(), keys, records)));
      ASSERT_EQ(ExportAll(*both.table), exported);
    }
  }
}

TEST_P(PackedTable, KeepsItsRowsUnderAnotherRule) {
  const std::vector<int64_t> all = Range(kLowId, kHighId);
  for (const RecordTypes& types : kPackedTypes) {
    SCOPED_TRACE(NameOf(types));
    Trained both(OptionsOf(false, 3, types, true), GetParam().options);
    for (int64_t step = 1; step <= 5; ++step) both.Step(GetParam(), step);
    ASSERT_TRUE(IsOk(SetRule(both.table.get(), AdamRule(), Inline())));
    ASSERT_EQ(Bits(Lookup(both.table.get(), all)), Bits(both.model.Rows(all)));
  }
}

}  // namespace keras_sparse::packed_table_test
