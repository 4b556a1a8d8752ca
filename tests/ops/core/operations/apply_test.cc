#include "ops/core/operations/apply.h"

#include <list>

#include "ops/core/gradients/gradient_merger.h"
#include "tests/ops/core/support/reference.h"
#include "tests/ops/core/support/table_testing.h"
#include "tests/ops/core/support/thread_executor.h"

namespace keras_sparse::apply_test {

TEST(ApplyGradients, CreatesARowFromItsInitialOne) {
  const TableOptions options = Dynamic(2);
  const auto table = OpenWithRule(options, SgdRule());
  ASSERT_TRUE(IsOk(Subtract(table.get(), {-9}, {1, 2})));
  const std::vector<float> row = InitialRow(options, -9);
  EXPECT_EQ(Lookup(table.get(), {-9}), (std::vector<float>{row[0] - 1, row[1] - 2}));
  EXPECT_EQ(NumRowsOf(*table), 1);
  EXPECT_EQ(StatsOf(*table).created_rows, 1);
  ASSERT_TRUE(IsOk(Subtract(table.get(), {-9}, {1, 2})));
  EXPECT_EQ(StatsOf(*table).created_rows, 1);
}

TEST(ApplyGradients, SumsOneIdThatIsRepeatedAMillionTimes) {
  TableOptions options = Dynamic(1);
  options.initializer = {};
  const auto table = OpenWithRule(options, SgdRule());
  ThreadExecutor executor(2);
  ASSERT_TRUE(IsOk(Subtract(table.get(), std::vector<int64_t>(1000000, 5),
                            std::vector<float>(1000000, 0.25f), &executor)));
  EXPECT_EQ(Lookup(table.get(), {5}), std::vector<float>{-250000});
}

TEST(ApplyGradients, MovesEveryRowOfALargeBatch) {
  for (const TableOptions& options : {Dynamic(3), Options(20000, 3)}) {
    const auto table = OpenWithRule(options, SgdRule());
    const std::vector<int64_t> ids = RandomIds(60000, 0, 19999, 1);
    const std::vector<float> grads = RandomFloats(60000 * 3, 2);
    ThreadExecutor executor(3);
    ASSERT_TRUE(IsOk(Subtract(table.get(), ids, grads, &executor)));
    for (const auto& [id, sum] : ReferenceMerge(ids, NoBags(ids), grads, 3)) {
      const std::vector<float> initial = InitialRow(options, id);
      std::vector<double> expected;
      for (size_t j = 0; j < 3; ++j) expected.push_back(initial[j] - sum[j]);
      ExpectNear(Lookup(table.get(), {id}), expected, 1e-5);
    }
  }
}

TEST(ApplyGradients, UpdatesManyTablesOfManyWidthsInOneStep) {
  std::vector<std::unique_ptr<EmbeddingTable>> tables;
  std::vector<std::vector<int64_t>> ids;
  std::vector<std::vector<float>> grads;
  std::vector<ApplyRequest> requests;
  for (const int64_t dim : {1, 3, 8, 100, 1500}) {
    const int64_t n = dim == 8 ? 0 : 500;
    tables.push_back(OpenWithRule(dim % 2 == 0 ? Dynamic(dim) : Options(100, dim), SgdRule()));
    ids.push_back(RandomIds(n, 0, 99, static_cast<uint64_t>(dim)));
    grads.push_back(RandomFloats(n * dim, static_cast<uint64_t>(dim)));
  }
  for (size_t t = 0; t < tables.size(); ++t) {
    requests.push_back(Request(tables[t].get(), ids[t], NoBags(ids[t]), grads[t]));
  }
  ThreadExecutor executor(3);
  ASSERT_TRUE(IsOk(ApplyGradients(requests, &executor)));
  for (size_t t = 0; t < tables.size(); ++t) {
    const int64_t dim = tables[t]->dim();
    const auto options = dim % 2 == 0 ? Dynamic(dim) : Options(100, dim);
    for (const auto& [id, sum] : ReferenceMerge(ids[t], NoBags(ids[t]), grads[t], dim)) {
      const float expected = InitialRow(options, id).back() - static_cast<float>(sum.back());
      ASSERT_NEAR(Lookup(tables[t].get(), {id}).back(), expected, 1e-4);
    }
  }
}

// As those of one lookup with the bags of all, one after the other, and the factors of their ids as
// weights.
TEST(ApplyGradients, AddsTheGradientsOfSeveralLookupsInTheirOrder) {
  constexpr int64_t kDim = 5;
  const std::vector<int64_t> splits = RandomSplits(6, 4, 3);
  const auto num_ids = splits.back();
  const std::vector<float> weights = RandomFloats(num_ids, 4);
  const std::vector<int64_t> plain_splits = Range(0, num_ids + 1);
  Bags weighted = BagsOf(Combiner::kSqrtN, splits);
  weighted.weights = weights.data();
  const std::vector<Bags> lookups = {BagsOf(Combiner::kMean, splits),
                                     {Combiner::kNone, num_ids, num_ids},
                                     BagsOf(Combiner::kSum, splits),
                                     weighted};
  for (const FloatType type : {FloatType::kFloat32, FloatType::kBFloat16}) {
    for (const bool is_dynamic : {false, true}) {
      const TableOptions options = is_dynamic ? Dynamic(kDim) : Options(30, kDim);
      const auto table = OpenWithRule(options, AdagradRule(0.1));
      const auto reference = OpenWithRule(options, AdagradRule(0.1));
      ApplyRequest request = {table.get(), {}, RuleGenerationOf(*table), {0.1f}};
      std::list<std::vector<int64_t>> ids;
      std::list<std::vector<char>> grads;
      std::vector<int64_t> all_ids;
      std::vector<int64_t> all_splits = {0};
      std::vector<float> all_weights;
      std::vector<float> all_grads;
      for (size_t i = 0; i < lookups.size(); ++i) {
        const Bags& bags = lookups[i];
        const std::vector<float> values = RandomFloats(bags.num_bags * kDim, 10 + i);
        ids.push_back(RandomIds(num_ids, 0, 29, i));
        grads.push_back(Placed(type, values, kDim, 0, kDim + 2));
        request.gradients.push_back(
            {ids.back().data(), bags, GradientRows(grads.back().data(), kDim + 2, type), kDim});
        RowsAsFloats rows(request.gradients.back().grads, kDim);
        for (int64_t b = 0; b < bags.num_bags; ++b) {
          all_grads.insert(all_grads.end(), rows.Row(b), rows.Row(b) + kDim);
          const int64_t begin = bags.row_splits == nullptr ? b : bags.row_splits[b];
          const int64_t end = bags.row_splits == nullptr ? b + 1 : bags.row_splits[b + 1];
          for (int64_t at = begin; at < end; ++at) {
            const float weight = bags.weights == nullptr ? 1 : bags.weights[at];
            all_weights.push_back(bags.Scale(b) * weight);
          }
          all_splits.push_back(all_splits.back() + end - begin);
        }
        all_ids.insert(all_ids.end(), ids.back().begin(), ids.back().end());
      }
      Bags all_bags = BagsOf(Combiner::kSum, all_splits);
      all_bags.weights = all_weights.data();
      ASSERT_TRUE(IsOk(ApplyGradients({request}, Inline())));
      ASSERT_TRUE(IsOk(ApplyGradients(
          {Request(reference.get(), all_ids, all_bags, all_grads, {0.1f})}, Inline())));
      EXPECT_EQ(ExportAll(*table), ExportAll(*reference));
      request.gradients[1].grads.type = FloatType::kFloat16;
      EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "must have one width and dtype",
                            ApplyGradients({request}, Inline())));
    }
  }
}

TEST(ApplyGradients, RefusesATableThatIsNamedTwice) {
  const auto table = OpenWithRule(Dynamic(1), SgdRule());
  const std::vector<int64_t> ids = {1};
  const std::vector<float> grads = {1};
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "must name each table once",
                        ApplyGradients({Request(table.get(), ids, NoBags(ids), grads),
                                        Request(table.get(), ids, NoBags(ids), grads)},
                                       Inline())));
  EXPECT_EQ(NumRowsOf(*table), 0);
}

TEST(ApplyGradients, ChangesNoTableIfTheNumbersOfOneAreNotItsRules) {
  const auto good = OpenWithRule(Dynamic(1), SgdRule());
  const auto bad = OpenWithRule(Dynamic(1), AdamRule());
  const std::vector<int64_t> ids = {1};
  const std::vector<float> grads = {1};
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "`numbers` of rule 'adam' must be 2",
                        ApplyGradients({Request(good.get(), ids, NoBags(ids), grads, {1}),
                                        Request(bad.get(), ids, NoBags(ids), grads, {1})},
                                       Inline())));
  EXPECT_EQ(NumRowsOf(*good), 0);
  EXPECT_EQ(NumRowsOf(*bad), 0);
}

TEST(ApplyGradients, GivesEachTableItsOwnNumbers) {
  const auto one = OpenWithRule(Options(3, 1), SgdRule());
  const auto other = OpenWithRule(Options(3, 1), SgdRule());
  const std::vector<int64_t> ids = {1};
  const std::vector<float> grads = {2};
  ASSERT_TRUE(IsOk(ApplyGradients({Request(one.get(), ids, NoBags(ids), grads, {0.5f}),
                                   Request(other.get(), ids, NoBags(ids), grads, {4})},
                                  Inline())));
  const float initial = InitialRow(Options(3, 1), 1)[0];
  EXPECT_EQ(Lookup(one.get(), ids), std::vector<float>{initial - 1});
  EXPECT_EQ(Lookup(other.get(), ids), std::vector<float>{initial - 8});
}

TEST(ApplyGradients, RefusesATableWithoutARule) {
  const auto table = Open(Dynamic(1));
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition,
                        "table 'items' must be given an update rule before it is updated",
                        Apply(table.get(), {1}, {4}, {1})));
  EXPECT_EQ(NumRowsOf(*table), 0);
}

TEST(ApplyGradients, ChangesNoTableIfOneIdIsOutOfRange) {
  const TableOptions options = Options(10, 1);
  const auto good = OpenWithRule(options, SgdRule());
  const auto bad = OpenWithRule(options, SgdRule());
  const std::vector<int64_t> good_ids = {3};
  const std::vector<int64_t> ids = {3, 10};
  const std::vector<float> good_grads = {1};
  const std::vector<float> grads = {1, 1};
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "ids[1] = 10",
                        ApplyGradients({Request(good.get(), good_ids, NoBags(good_ids), good_grads),
                                        Request(bad.get(), ids, NoBags(ids), grads)},
                                       Inline())));
  EXPECT_EQ(Lookup(good.get(), {3}), InitialRow(options, 3));
  EXPECT_EQ(Lookup(bad.get(), {3}), InitialRow(options, 3));
}

TEST(ApplyGradients, LeavesOutIdsThatReadAsZeros) {
  TableOptions options = Options(3, 1);
  options.out_of_range_is_zero = true;
  const auto table = OpenWithRule(options, SgdRule());
  ASSERT_TRUE(IsOk(Subtract(table.get(), {-1, 2, 3, 2}, {100, 1, 100, 1})));
  EXPECT_EQ(Lookup(table.get(), {-1, 2, 3}),
            (std::vector<float>{0, InitialRow(options, 2)[0] - 2, 0}));
  ASSERT_TRUE(IsOk(Subtract(table.get(), std::vector<int64_t>(100, -5), std::vector<float>(100))));
}

TEST(ApplyGradients, MovesRowsByTheGradientsOfTheirBagsAsIfTheyHadBeenMerged) {
  ThreadExecutor executor(3);
  for (const int64_t dim : {1, 33}) {
    const std::vector<int64_t> splits = RandomSplits(4000, 8, 1);
    const std::vector<int64_t> ids = RandomIds(splits.back(), 0, 4999, 2);
    const std::vector<float> weights = RandomFloats(splits.back(), 3);
    const std::vector<float> grads = RandomFloats(4000 * dim, 4);
    for (const Bags& bags :
         {BagsOf(Combiner::kSum, splits), BagsOf(Combiner::kMean, splits),
          BagsOf(Combiner::kSum, splits, weights), BagsOf(Combiner::kSqrtN, splits, weights)}) {
      for (const TableOptions& options : {Dynamic(dim), Options(5000, dim)}) {
        const auto table = OpenWithRule(options, AdagradRule(0.1));
        ASSERT_TRUE(
            IsOk(ApplyGradients({Request(table.get(), ids, bags, grads, {0.1f})}, &executor)));
        std::unique_ptr<GradientMerger> merger;
        ASSERT_TRUE(IsOk(
            GradientMerger::Create({{ids.data(), bags, grads.data(), dim}}, Inline(), &merger)));
        std::vector<int64_t> merged_ids(static_cast<size_t>(merger->num_entries(0)));
        std::vector<float> sums(merged_ids.size() * static_cast<size_t>(dim));
        merger->Write({{merged_ids.data(), sums.data()}}, Inline());
        const auto expected = OpenWithRule(options, AdagradRule(0.1));
        ASSERT_TRUE(IsOk(Apply(expected.get(), {0.1f}, merged_ids, sums)));
        EXPECT_EQ(ExportAll(*table), ExportAll(*expected));
      }
    }
  }
}

TEST(ApplyGradients, ChangesNothingIfTheRowSplitsAreWrong) {
  const auto table = OpenWithRule(Dynamic(1), SgdRule());
  const std::vector<int64_t> ids = {1, 2};
  const std::vector<int64_t> splits = {0, 3, 2};
  const std::vector<float> grads = {1, 1};
  EXPECT_TRUE(
      FailsWith(StatusCode::kInvalidArgument, "`row_splits` must rise",
                ApplyGradients({Request(table.get(), ids, BagsOf(Combiner::kSum, splits), grads)},
                               Inline())));
  EXPECT_EQ(NumRowsOf(*table), 0);
}

TEST(ApplyGradients, RefusesAnUpdateForSlotsThatWereLaidOutAnew) {
  const auto table = OpenWithRule(Dynamic(1), AdagradRule(0));
  const std::vector<int64_t> ids = {1};
  const std::vector<float> grads = {1};
  const ApplyRequest request = Request(table.get(), ids, NoBags(ids), grads);
  ASSERT_TRUE(IsOk(ApplyGradients({request}, Inline())));
  ASSERT_TRUE(IsOk(SetRule(table.get(), AdagradRule(0), Inline())));
  const Exported before = ExportAll(*table);
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "another one was built on it since",
                        ApplyGradients({request}, Inline())));
  EXPECT_EQ(ExportAll(*table), before);
}

TEST(ApplyGradients, TakesABatchOfSizeZero) {
  const auto table = OpenWithRule(Dynamic(2), SgdRule());
  EXPECT_TRUE(IsOk(Subtract(table.get(), {}, {})));
  EXPECT_TRUE(IsOk(ApplyGradients({}, Inline())));
  EXPECT_EQ(NumRowsOf(*table), 0);
}

TEST(ApplyGradients, UpdatesKeysChosenToFallIntoOnePart) {
  const TableOptions options = Dynamic(2);
  const auto table = OpenWithRule(options, SgdRule());
  std::vector<int64_t> ids;
  for (uint64_t i = 0; i < 30000; ++i)
    ids.push_back(KeyOfHash((0x5aULL << 56) | (i * 0x9E3779B1u)));
  ThreadExecutor executor(2);
  ASSERT_TRUE(IsOk(Subtract(table.get(), ids, std::vector<float>(60000, 1), &executor)));
  EXPECT_EQ(NumRowsOf(*table), 30000);
  for (const int64_t id : {ids.front(), ids[12345], ids.back()}) {
    EXPECT_EQ(Lookup(table.get(), {id})[1], InitialRow(options, id)[1] - 1);
  }
}

}  // namespace keras_sparse::apply_test
