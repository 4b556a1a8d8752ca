#include "ops/core/operations/lookup.h"

#include "tests/ops/core/support/reference.h"
#include "tests/ops/core/support/table_testing.h"
#include "tests/ops/core/support/thread_executor.h"

namespace keras_sparse::lookup_test {

constexpr Combiner kPooling[] = {Combiner::kSum, Combiner::kMean, Combiner::kSqrtN};
constexpr int64_t kWidths[] = {1, 3, 4, 5, 8, 16, 33, 64, 100, 1500};

TEST(LookupRows, GivesTheInitialRowOfAKeyWithoutOne) {
  for (const int64_t dim : kWidths) {
    for (const TableOptions& options : {Dynamic(dim, 5), Options(50, dim, 5)}) {
      const auto table = Open(options);
      const std::vector<float> rows = Lookup(table.get(), {7, 0, 7, 49});
      std::vector<float> expected;
      for (const int64_t key : {7, 0, 7, 49}) {
        const std::vector<float> row = InitialRow(options, key);
        expected.insert(expected.end(), row.begin(), row.end());
      }
      EXPECT_EQ(rows, expected) << "dim " << dim;
    }
  }
}

TEST(LookupRows, ChangesNothing) {
  const auto table = Open(Dynamic(4));
  (void)Lookup(table.get(), {1, 2, 3});
  EXPECT_EQ(NumRowsOf(*table), 0);
  EXPECT_TRUE(ExportAll(*table).empty());
}

TEST(LookupRows, HasAnInitialRowForEveryInt64) {
  const TableOptions options = Dynamic(3);
  const auto table = OpenWithRule(options, SgdRule());
  for (const int64_t key : ExtremeKeys()) {
    EXPECT_EQ(Lookup(table.get(), {key}), InitialRow(options, key));
    ASSERT_TRUE(IsOk(Subtract(table.get(), {key}, {1, 1, 1})));
  }
  EXPECT_EQ(NumRowsOf(*table), 5);
  for (const int64_t key : ExtremeKeys()) {
    EXPECT_EQ(Lookup(table.get(), {key})[1], InitialRow(options, key)[1] - 1);
  }
}

TEST(LookupRows, PoolsLikeADoubleReferenceAtAnyWidth) {
  ThreadExecutor executor(2);
  for (const int64_t dim : kWidths) {
    // Half of the keys have rows of their own.
    const auto table = OpenWithRule(Dynamic(dim), SgdRule());
    const std::vector<int64_t> trained = RandomIds(60, 0, 99, 1);
    ASSERT_TRUE(IsOk(Subtract(table.get(), trained, RandomFloats(60 * dim, 2))));
    const std::vector<int64_t> splits = RandomSplits(80, 9, 3);
    const std::vector<int64_t> ids = RandomIds(splits.back(), 0, 99, 4);
    const std::vector<float> weights = RandomFloats(splits.back(), 5);
    const auto row_of = [&](int64_t id) { return Lookup(table.get(), {id}); };
    for (const Combiner combiner : {Combiner::kSum, Combiner::kSqrtN}) {
      const Bags bags = BagsOf(combiner, splits, weights);
      ExpectNear(Pool(table.get(), ids, bags, &executor), ReferencePool(row_of, ids, bags, dim),
                 1e-5);
    }
    const Bags bags = BagsOf(Combiner::kMean, splits);
    ExpectNear(Pool(table.get(), ids, bags, &executor), ReferencePool(row_of, ids, bags, dim),
               1e-5);
  }
}

TEST(LookupRows, PoolsByHand) {
  const auto table = Open(Options(4, 1));
  ASSERT_TRUE(IsOk(ImportAll(table.get(), {0, 1, 2, 3}, {0, 2, 4, 6})));
  const std::vector<int64_t> ids = {1, 3, 3, 2};
  const std::vector<int64_t> splits = {0, 2, 2, 4};
  const std::vector<float> weights = {1, 3, 3, 4};
  const auto pool = [&](const Bags& bags) { return Pool(table.get(), ids, bags); };
  EXPECT_EQ(pool(BagsOf(Combiner::kSum, splits)), (std::vector<float>{8, 0, 10}));
  EXPECT_EQ(pool(BagsOf(Combiner::kMean, splits)), (std::vector<float>{4, 0, 5}));
  EXPECT_EQ(pool(BagsOf(Combiner::kSum, splits, weights)), (std::vector<float>{20, 0, 34}));
  EXPECT_EQ(pool(BagsOf(Combiner::kMean, splits, weights))[0], 5);
  EXPECT_FLOAT_EQ(pool(BagsOf(Combiner::kSqrtN, splits, weights))[2], 6.8f);
}

TEST(LookupRows, GivesZerosForEmptyBagsAndZeroDivisors) {
  const auto table = Open(Dynamic(2));
  const std::vector<int64_t> splits = {0, 0, 2, 3, 3};
  const std::vector<float> weights = {1, -1, 0};
  for (const Combiner combiner : kPooling) {
    const std::vector<float> rows = Pool(table.get(), {5, 5, 6}, BagsOf(combiner, splits, weights));
    EXPECT_EQ(rows, std::vector<float>(8, 0.0f));
  }
  EXPECT_EQ(Pool(table.get(), {}, BagsOf(Combiner::kMean, {0, 0, 0})), std::vector<float>(4, 0.0f));
}

TEST(LookupRows, TakesABatchOfSizeZero) {
  const auto table = Open(Dynamic(2));
  const std::vector<int64_t> splits = {0};
  EXPECT_TRUE(Lookup(table.get(), {}).empty());
  EXPECT_TRUE(Pool(table.get(), {}, BagsOf(Combiner::kSum, splits)).empty());
  EXPECT_TRUE(IsOk(LookupRows({}, Inline())));
}

// A bag may be many times what is read at once, and its rows may be there or not.
TEST(LookupRows, PoolsBagsOfAllSizesSideBySide) {
  ThreadExecutor executor(2);
  for (const int64_t dim : {4, 20, 64}) {
    const auto table = OpenWithRule(Dynamic(dim), SgdRule());
    const std::vector<int64_t> trained = RandomIds(900, 0, 999, 1);
    ASSERT_TRUE(IsOk(Subtract(table.get(), trained, RandomFloats(900 * dim, 2))));
    const std::vector<int64_t> splits = RandomSplits(400, 70, 3);
    const std::vector<int64_t> ids = RandomIds(splits.back(), 0, 999, 4);
    std::vector<std::vector<float>> rows;
    for (int64_t id = 0; id < 1000; ++id) rows.push_back(Lookup(table.get(), {id}));
    const auto row_of = [&](int64_t id) { return rows[static_cast<size_t>(id)]; };
    for (const Combiner combiner : kPooling) {
      const Bags bags = BagsOf(combiner, splits);
      ExpectNear(Pool(table.get(), ids, bags, &executor), ReferencePool(row_of, ids, bags, dim),
                 1e-5);
    }
  }
}

TEST(LookupRows, PoolsOneHugeBag) {
  const auto table = Open(Options(10, 3));
  const std::vector<int64_t> splits = {0, 1, 100000, 100001};
  const std::vector<int64_t> ids = RandomIds(100001, 0, 9, 6);
  const Bags bags = BagsOf(Combiner::kMean, splits);
  ThreadExecutor executor(3);
  ExpectNear(Pool(table.get(), ids, bags, &executor),
             ReferencePool([&](int64_t id) { return Lookup(table.get(), {id}); }, ids, bags, 3),
             1e-4);
}

TEST(LookupRows, ServesManyTablesInOneCallAndOneTableTwice) {
  const TableOptions users = Dynamic(2, 1);
  const TableOptions items = Options(9, 3, 2);
  const auto first = Open(users);
  const auto second = Open(items);
  const std::vector<int64_t> a = {-4, 8};
  const std::vector<int64_t> b = {8, 1, 2};
  const std::vector<int64_t> splits = {0, 3};
  std::vector<float> rows_a(4);
  std::vector<float> rows_b(3);
  std::vector<float> rows_c(9);
  ThreadExecutor executor(2);
  ASSERT_TRUE(
      IsOk(LookupRows({{second.get(), b.data(), BagsOf(Combiner::kSum, splits), rows_b.data()},
                       {first.get(), a.data(), NoBags(a), rows_a.data()},
                       {second.get(), b.data(), NoBags(b), rows_c.data()}},
                      &executor)));
  EXPECT_EQ(rows_a, Lookup(first.get(), a));
  EXPECT_EQ(rows_c, Lookup(second.get(), b));
  EXPECT_EQ(rows_b, Pool(second.get(), b, BagsOf(Combiner::kSum, splits)));
}

TEST(LookupRows, NamesTableAndPlaceOfTheFirstIdOutsideAStaticTable) {
  const auto table = Open(Options(80, 2));
  std::vector<float> rows(8);
  ThreadExecutor executor(2);
  for (const int64_t bad : {int64_t{80}, int64_t{-1}, std::numeric_limits<int64_t>::min(),
                            std::numeric_limits<int64_t>::max()}) {
    const std::vector<int64_t> ids = {0, 79, bad, 1000};
    const Status status =
        LookupRows({{table.get(), ids.data(), NoBags(ids), rows.data()}}, &executor);
    EXPECT_TRUE(
        FailsWith(StatusCode::kInvalidArgument, "id must be in [0, 80) for table 'items'", status));
    EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "ids[2] = " + std::to_string(bad), status));
  }
  EXPECT_EQ(StatsOf(*table).out_of_range_ids, 0);
}

TEST(LookupRows, ReadsAndCountsIdsOutsideAsZerosWhereThatIsWanted) {
  TableOptions options = Options(3, 2);
  options.out_of_range_is_zero = true;
  const auto table = Open(options);
  const std::vector<float> rows = Lookup(table.get(), {3, 2, -1});
  const std::vector<float> row = InitialRow(options, 2);
  EXPECT_EQ(rows, (std::vector<float>{0, 0, row[0], row[1], 0, 0}));
  EXPECT_EQ(StatsOf(*table).out_of_range_ids, 2);
  const std::vector<int64_t> splits = {0, 2};
  EXPECT_EQ(Pool(table.get(), {2, 9}, BagsOf(Combiner::kSum, splits)), row);
  EXPECT_EQ(StatsOf(*table).out_of_range_ids, 3);
}

TEST(LookupRows, CountsLookupsAndHits) {
  const auto table = OpenWithRule(Dynamic(1), SgdRule());
  ASSERT_TRUE(IsOk(Subtract(table.get(), {5}, {1})));
  (void)Lookup(table.get(), {5, 6, 5, 7});
  EXPECT_EQ(StatsOf(*table).lookups, 4);
  EXPECT_EQ(StatsOf(*table).hits, 2);
}

TEST(LookupRows, RefusesBrokenSplits) {
  const auto table = Open(Dynamic(1));
  const std::vector<int64_t> ids = {1, 2, 3};
  const std::vector<int64_t> splits = {0, 3, 2, 3};
  std::vector<float> rows(3);
  EXPECT_TRUE(
      FailsWith(StatusCode::kInvalidArgument, "`row_splits` must rise",
                LookupRows({{table.get(), ids.data(), BagsOf(Combiner::kSum, splits), rows.data()}},
                           Inline())));
}

}  // namespace keras_sparse::lookup_test
