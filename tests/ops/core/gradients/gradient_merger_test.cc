#include "ops/core/gradients/gradient_merger.h"

#include "tests/ops/core/support/reference.h"
#include "tests/ops/core/support/table_testing.h"
#include "tests/ops/core/support/thread_executor.h"

namespace keras_sparse::gradient_merger_test {

struct Merged {
  std::vector<int64_t> ids;
  std::vector<float> values;
};

std::vector<Merged> Merge(const std::vector<OutputGradient>& gradients, Executor* executor) {
  std::unique_ptr<GradientMerger> merger;
  EXPECT_TRUE(IsOk(GradientMerger::Create(gradients, executor, &merger)));
  std::vector<Merged> merged(gradients.size());
  std::vector<GradientMerger::Result> results;
  for (size_t g = 0; g < gradients.size(); ++g) {
    merged[g].ids.resize(static_cast<size_t>(merger->num_entries(g)));
    merged[g].values.resize(merged[g].ids.size() * static_cast<size_t>(gradients[g].dim));
    results.push_back({merged[g].ids.data(), merged[g].values.data()});
  }
  merger->Write(results, executor);
  return merged;
}

void ExpectMerged(const Merged& merged, const OutputGradient& gradient) {
  std::map<int64_t, std::vector<uint32_t>> found;
  for (size_t u = 0; u < merged.ids.size(); ++u) {
    const auto begin = merged.values.begin() + static_cast<std::ptrdiff_t>(u) * gradient.dim;
    found[merged.ids[u]] = Bits({begin, begin + gradient.dim});
  }
  EXPECT_TRUE(found == MergedBits({gradient}));
  EXPECT_EQ(found.size(), merged.ids.size());
}

TEST(GradientMerger, SumsEqualIdsByHand) {
  const std::vector<int64_t> ids = {7, -1, 7};
  const std::vector<float> grads = {1, 2, 10, 20, 100, 200};
  const Merged merged = Merge({{ids.data(), NoBags(ids), grads.data(), 2}}, Inline())[0];
  EXPECT_EQ(merged.ids, (std::vector<int64_t>{7, -1}));
  EXPECT_EQ(merged.values, (std::vector<float>{101, 202, 10, 20}));
}

TEST(GradientMerger, SumsAsDefinedForEachCombiner) {
  ThreadExecutor executor(2);
  const std::vector<int64_t> splits = RandomSplits(3000, 5, 1);
  for (const bool are_frequent : {true, false}) {
    std::vector<int64_t> ids = RandomIds(splits.back(), -500, 500, 2);
    if (are_frequent) ids = FrequentIds();
    std::vector<int64_t> ends = splits;
    ends.back() = static_cast<int64_t>(ids.size());
    const std::vector<float> weights = RandomFloats(ends.back(), 3);
    for (const int64_t dim :
         are_frequent ? std::vector<int64_t>{2} : std::vector<int64_t>{1, 3, 33, 64}) {
      const std::vector<float> grads = GradientsWithZeros(ends.back() * dim);
      for (const Bags& bags :
           {NoBags(ids), BagsOf(Combiner::kSum, ends), BagsOf(Combiner::kSum, ends, weights),
            BagsOf(Combiner::kMean, ends), BagsOf(Combiner::kSqrtN, ends),
            BagsOf(Combiner::kSqrtN, ends, weights)}) {
        const OutputGradient gradient = {ids.data(), bags, grads.data(), dim};
        const Merged merged = Merge({gradient}, &executor)[0];
        ExpectMerged(merged, gradient);
        EXPECT_EQ(merged.ids, Merge({gradient}, Inline())[0].ids);  // in the same order
      }
    }
  }
}

TEST(GradientMerger, MergesManyGradientsInOneCall) {
  ThreadExecutor executor(3);
  const std::vector<int64_t> a = RandomIds(20000, 0, 3000, 5);
  const std::vector<int64_t> b = {4, 4};
  const std::vector<int64_t> splits = {0, 0, 2};
  const std::vector<int64_t> none;
  const std::vector<float> grads_a = RandomFloats(20000 * 5, 6);
  const std::vector<float> grads_b = {1, 2, 3, 4};
  const OutputGradient large = {a.data(), NoBags(a), grads_a.data(), 5};
  const auto merged = Merge({large,
                             {none.data(), NoBags(none), nullptr, 3},
                             {b.data(), BagsOf(Combiner::kMean, splits), grads_b.data(), 2}},
                            &executor);
  ExpectMerged(merged[0], large);
  EXPECT_TRUE(merged[1].ids.empty());
  EXPECT_EQ(merged[2].ids, (std::vector<int64_t>{4}));
  EXPECT_EQ(merged[2].values, (std::vector<float>{3, 4}));
}

TEST(GradientMerger, HasAsManyEntriesOfAnIdAsItOccursUpToSoMany) {
  ThreadExecutor executor(3);
  const std::vector<int64_t> ids = RandomIds(20000, -5000, 5000, 5);
  std::map<int64_t, int64_t> occurrences;
  for (const int64_t id : ids) ++occurrences[id];
  const std::vector<float> grads = RandomFloats(20000 * 3, 6);
  OutputGradient gradient{ids.data(), NoBags(ids), grads.data(), 3};
  const Merged sums = Merge({gradient, gradient}, &executor)[1];
  for (const int64_t most : {2, 3, 100}) {
    gradient.max_entries = most;
    const Merged merged = Merge({gradient, gradient}, &executor)[1];
    size_t entry = 0;
    for (size_t u = 0; u < sums.ids.size(); ++u) {
      const int64_t id = sums.ids[u];
      for (int64_t i = 0; i < std::min(occurrences[id], most); ++i, ++entry) {
        ASSERT_EQ(merged.ids[entry], id);
        const auto begin = merged.values.begin() + static_cast<std::ptrdiff_t>(3 * entry);
        const auto sum = sums.values.begin() + static_cast<std::ptrdiff_t>(3 * u);
        const std::vector<float> expected =
            i == 0 ? std::vector<float>{sum, sum + 3} : std::vector<float>(3, kEmptySum);
        ASSERT_EQ(Bits({begin, begin + 3}), Bits(expected));
      }
    }
    EXPECT_EQ(entry, merged.ids.size());
  }
}

TEST(GradientMerger, KeepsTheSignOfAZeroThatIsAlone) {
  const std::vector<int64_t> ids = {7, 5, 5};
  const std::vector<int64_t> splits = {0, 1, 2, 3};
  const std::vector<float> weights = {2, 3, 4};
  const std::vector<float> grads = {-0.0f, -0.0f, 0.0f};
  for (const Bags& bags :
       {NoBags(ids), BagsOf(Combiner::kSum, splits), BagsOf(Combiner::kSum, splits, weights),
        BagsOf(Combiner::kMean, splits), BagsOf(Combiner::kSqrtN, splits, weights)}) {
    for (const FloatType type : kFloatTypes) {
      const std::vector<char> placed = Placed(type, grads, 1, 0, 1);
      const GradientRows rows(placed.data(), 1, type);
      const Merged merged = Merge({{ids.data(), bags, rows, 1}}, Inline())[0];
      EXPECT_EQ(Bits(merged.values), Bits({-0.0f, 0.0f}));
    }
  }
}

TEST(GradientMerger, HasNoNanFromEmptyBagsOrZeroDivisors) {
  const std::vector<int64_t> ids = {1, 2};
  const std::vector<int64_t> splits = {0, 0, 2, 2};
  const std::vector<float> weights = {1, -1};
  const std::vector<float> grads = {1, 1, 1};
  const Merged merged =
      Merge({{ids.data(), BagsOf(Combiner::kMean, splits, weights), grads.data(), 1}}, Inline())[0];
  EXPECT_EQ(merged.values[0], 0);
  EXPECT_EQ(merged.values[1], 0);
}

TEST(GradientMerger, RefusesBrokenSplits) {
  const std::vector<int64_t> ids = {1, 2};
  const std::vector<int64_t> splits = {0, 1};
  const std::vector<float> grads = {1};
  Bags bags = BagsOf(Combiner::kSum, splits);
  bags.num_ids = 2;
  std::unique_ptr<GradientMerger> merger;
  EXPECT_TRUE(
      FailsWith(StatusCode::kInvalidArgument, "`row_splits` must rise",
                GradientMerger::Create({{ids.data(), bags, grads.data(), 1}}, Inline(), &merger)));
}

}  // namespace keras_sparse::gradient_merger_test
