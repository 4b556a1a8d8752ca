// Lookups of 16-bit rows: copied, converted or pooled.
#include "tests/ops/core/support/filter_testing.h"
#include "tests/ops/core/support/reference.h"
#include "tests/ops/core/support/table_access.h"

namespace keras_sparse::packed_lookup_test {

// Ids outside a static table, and ids that a dynamic one has no row for.
constexpr int64_t kLowId = -3;
constexpr int64_t kHighId = 25;
constexpr int64_t kRows = 22;

// A table of packed records, some of which miss steps, and one of the same rows as float32.
class Tables {
 public:
  Tables(const TableOptions& options, const RuleOptions& rule)
      : packed_(OpenWithRule(options, rule)), floats_(Open(Packed(options, {}))) {
    const std::vector<float> numbers(rule.rule == "sgd" ? 1 : 2, 0.1f);
    for (uint64_t step = 1; step <= 3; ++step) {
      EXPECT_TRUE(IsOk(Apply(packed_.get(), numbers, RandomIds(20, 0, kRows - 1, step),
                             RandomFloats(20 * options.output_dim, step))));
    }
    std::vector<int64_t> keys = Range(kLowId, kHighId);
    if (!options.is_dynamic()) keys = Range(0, kRows);
    EXPECT_TRUE(IsOk(ImportAll(floats_.get(), keys, Lookup(packed_.get(), keys))));
  }

  // Compares lookups into columns [first, first + dim) of wider rows.
  void CheckLookups(const std::vector<int64_t>& ids, const Bags& bags, FloatType type,
                    int64_t first) const {
    std::vector<std::vector<char>> outputs;
    for (EmbeddingTable* table : {packed_.get(), floats_.get()}) {
      const int64_t stride = table->dim() + 2 * first;
      std::vector<char> rows(static_cast<size_t>(bags.num_bags * stride * FloatBytes(type)),
                             kUnused);
      const OutputRows output = OutputRows(rows.data(), stride, type).From(first);
      ASSERT_TRUE(IsOk(LookupRows({{table, ids.data(), bags, output}}, Inline())));
      outputs.push_back(rows);
    }
    ASSERT_EQ(outputs[0], outputs[1]);
  }
  void CheckWeightsGradient(const std::vector<int64_t>& ids, const Bags& bags) const {
    const std::vector<float> grads = RandomFloats(bags.num_bags * packed_->dim(), 7);
    std::vector<std::vector<float>> results;
    for (EmbeddingTable* table : {packed_.get(), floats_.get()}) {
      results.emplace_back(ids.size());
      ASSERT_TRUE(IsOk(LookupWeightsGradient(
          {{table, ids.data(), bags, grads.data(), results.back().data(), VersionOf(*table)}},
          Inline())));
    }
    ASSERT_EQ(Bits(results[0]), Bits(results[1]));
  }

 private:
  std::unique_ptr<EmbeddingTable> packed_;
  std::unique_ptr<EmbeddingTable> floats_;
};

TEST(PackedLookups, ReadRowsAsATableOfFloatsDoes) {
  const std::vector<int64_t> splits = {0, 3, 3, 40, 41, 60};  // more than a block of rows
  const std::vector<int64_t> ids = RandomIds(60, kLowId, kHighId - 1, 5);
  const std::vector<float> weights = RandomFloats(60, 6);
  const std::vector<Bags> all_bags = {
      NoBags(ids), BagsOf(Combiner::kSum, splits), BagsOf(Combiner::kMean, splits),
      BagsOf(Combiner::kMean, splits, weights), BagsOf(Combiner::kSqrtN, splits, weights)};
  for (const RecordTypes& types : kPackedTypes) {
    for (const int64_t dim : {1, 2, 3, 4, 7, 8, 12, 33, 64, 100}) {
      for (const int number : {0, 1, 2, 3}) {
        SCOPED_TRACE(NameOf(types) + ", dim " + std::to_string(dim));
        TableOptions options = Packed(number < 2 ? Options(kRows, dim) : Dynamic(dim), types);
        options.out_of_range_is_zero = true;
        const Tables tables(options, number % 2 == 0 ? SgdRule() : AdamRule());
        for (const Bags& bags : all_bags) {
          for (const FloatType type : kFloatTypes) {
            // Rows of halves that start at no whole word, too.
            for (const int64_t first : {0, 1, 4}) tables.CheckLookups(ids, bags, type, first);
          }
        }
        tables.CheckWeightsGradient(ids, all_bags[3]);
      }
    }
  }
}

TEST(PackedLookups, ReadTheDefaultValueOfKeysThatAreNotAdmitted) {
  for (const RecordTypes& types : kPackedTypes) {
    FilterOptions filter = Counter(3);
    filter.default_value = 0.3f;
    const auto table = OpenFiltered(Packed(Dynamic(3), types), SgdRule(), filter);
    const std::vector<float> expected = Rounded(types.row, std::vector<float>(3, 0.3f));
    for (int step = 0; step < 2; ++step) {
      EXPECT_EQ(Lookup(table.get(), {5}), expected) << NameOf(types);
      ASSERT_TRUE(IsOk(Subtract(table.get(), {5}, {1, 1, 1})));
    }
    RowsOfKeys rows;
    const int64_t key = 5;
    ASSERT_TRUE(IsOk(ReadRows(*table, &key, 1, Inline(), &rows)));
    EXPECT_EQ(rows.records, expected);
    ASSERT_TRUE(IsOk(Subtract(table.get(), {5}, {1, 1, 1})));
    EXPECT_NE(Lookup(table.get(), {5}), expected);
  }
}

}  // namespace keras_sparse::packed_lookup_test
