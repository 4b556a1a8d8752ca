// Lookups whose outputs exceed the cache, and so are written past it.

#include "tests/ops/core/support/reference.h"
#include "tests/ops/core/support/table_testing.h"
#include "tests/ops/core/support/thread_executor.h"

namespace keras_sparse::streamed_lookup_test {

constexpr int64_t kManyFloats = int64_t{9} << 20;  // 38 MB

// Copied or converted, in whole vectors and not.
TEST(StreamedLookup, CopiesMoreRowsThanACacheHolds) {
  constexpr FloatType kFloat = FloatType::kFloat32;
  constexpr FloatType kHalf = FloatType::kFloat16;
  constexpr FloatType kBrain = FloatType::kBFloat16;
  struct Case {
    FloatType from;
    FloatType to;
    std::vector<int64_t> dims;
  };
  ThreadExecutor executor(2);
  for (const Case& each : std::vector<Case>{{kFloat, kFloat, {4, 8, 9}},
                                            {kBrain, kFloat, {4, 8, 9}},
                                            {kHalf, kFloat, {4, 8, 9}},
                                            {kBrain, kBrain, {8, 9, 16}},
                                            {kHalf, kBrain, {8}}}) {
    for (const int64_t dim : each.dims) {
      const int64_t row_bytes = FloatBytes(each.to) * dim;
      const int64_t num_ids = 4 * kManyFloats / row_bytes;
      const auto table = Open(Packed(Options(50, dim, 5), {each.from, kFloat}));
      const std::vector<int64_t> ids = RandomIds(num_ids, 0, 49, 3);
      std::vector<char> memory(static_cast<size_t>(num_ids * row_bytes + 64));
      char* rows = memory.data() + -reinterpret_cast<uintptr_t>(memory.data()) % 64;
      LookupRequest request = {table.get(), ids.data(), NoBags(ids), OutputRows(rows, 0, each.to)};
      ASSERT_TRUE(IsOk(LookupRows({request}, &executor)));
      const std::vector<char> expected =
          Placed(each.to, Lookup(table.get(), Range(0, 50)), dim, 0, dim);
      size_t num_wrong = 0;
      for (int64_t i = 0; i < num_ids; ++i) {
        const char* row = expected.data() + ids[static_cast<size_t>(i)] * row_bytes;
        if (!std::equal(row, row + row_bytes, rows + i * row_bytes)) ++num_wrong;
      }
      EXPECT_EQ(num_wrong, 0) << "dim " << dim;
    }
  }
}

TEST(StreamedLookup, PoolsMoreBagsThanACacheHolds) {
  ThreadExecutor executor(2);
  for (const int64_t dim : {4, 8, 12}) {
    const int64_t num_bags = kManyFloats / dim;
    const FloatType type = kFloatTypes[dim / 4 - 1];
    const auto table = Open(Packed(Options(50, dim, 5), {type, FloatType::kFloat32}));
    const std::vector<int64_t> splits = RandomSplits(num_bags, 2, 3);
    const std::vector<int64_t> ids = RandomIds(splits.back(), 0, 49, 3);
    const Bags bags = BagsOf(Combiner::kMean, splits);
    std::vector<float> memory(static_cast<size_t>(num_bags * dim + 16), -1.0f);
    const auto address = reinterpret_cast<uintptr_t>(memory.data());
    float* rows = memory.data() + (-address % 64) / sizeof(float);
    ASSERT_TRUE(IsOk(LookupRows({{table.get(), ids.data(), bags, rows}}, &executor)));
    std::vector<std::vector<float>> table_rows;
    for (int64_t id = 0; id < 50; ++id) table_rows.push_back(Lookup(table.get(), {id}));
    const auto row_of = [&](int64_t id) { return table_rows[static_cast<size_t>(id)]; };
    ExpectNear(std::vector<float>(rows, rows + num_bags * dim),
               ReferencePool(row_of, ids, bags, dim), 1e-6);
  }
}

// As many small outputs as no cache holds, which are streamed after the first steps.
TEST(StreamedLookup, CopiesRowsOfManyLookupsOfAStep) {
  constexpr int64_t kDim = 8;
  constexpr int64_t kNumIds = 40000;
  constexpr size_t kLookups = 30;  // 38 MB
  ThreadExecutor executor(2);
  std::vector<std::unique_ptr<EmbeddingTable>> tables;
  std::vector<std::vector<int64_t>> ids;
  for (size_t t = 0; t < kLookups; ++t) {
    tables.push_back(Open(Options(50, kDim, t)));
    ids.push_back(RandomIds(kNumIds, 0, 49, t));
  }
  std::vector<float> memory(static_cast<size_t>(kLookups * kNumIds * kDim + 16));
  float* rows = memory.data() + (-reinterpret_cast<uintptr_t>(memory.data()) % 64) / sizeof(float);
  for (int step = 0; step < 2; ++step) {
    std::fill(memory.begin(), memory.end(), -1.0f);
    for (size_t t = 0; t < kLookups; ++t) {
      float* own = rows + t * kNumIds * kDim;
      LookupRequest request = {tables[t].get(), ids[t].data(), NoBags(ids[t]), own};
      ASSERT_TRUE(IsOk(LookupRows({request}, &executor)));
    }
    for (size_t t = 0; t < kLookups; ++t) {
      const std::vector<float> expected = Lookup(tables[t].get(), ids[t]);
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), rows + t * kNumIds * kDim))
          << "step " << step << ", table " << t;
    }
  }
}

TEST(CountOutputs, CountsAllLookupsOfAStepHoweverTheyAreSpreadOverOps) {
  const std::vector<int64_t> ids = {1, 2, 3};
  std::vector<float> rows(12);
  std::vector<std::unique_ptr<EmbeddingTable>> tables;
  for (int t = 0; t < 3; ++t) tables.push_back(Open(Options(50, 4, 5)));
  const auto request = [&](int t) {
    return LookupRequest{tables[static_cast<size_t>(t)].get(), ids.data(), NoBags(ids),
                         rows.data()};
  };
  for (int t = 0; t < 3; ++t) (void)CountOutputs({request(t)});
  for (int t = 0; t < 3; ++t) EXPECT_EQ(CountOutputs({request(t)}), 3 * 48);
  EXPECT_EQ(CountOutputs({request(0), request(1), request(2)}), 5 * 48);  // two and these three
  EXPECT_EQ(CountOutputs({request(0), request(1), request(2)}), 3 * 48);
  EXPECT_EQ(CountOutputs({request(2)}), 48);
  EXPECT_EQ(CountOutputs({request(2)}), 48);
  EXPECT_EQ(CountOutputs({request(2), request(0)}), 4 * 48);  // since the last lookup of table 0
  EXPECT_EQ(CountOutputs({}), 0);
}

}  // namespace keras_sparse::streamed_lookup_test
