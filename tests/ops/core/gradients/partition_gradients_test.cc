#include "ops/core/gradients/partition_gradients.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "tests/ops/core/support/reference.h"
#include "tests/ops/core/support/table_testing.h"

namespace keras_sparse::partition_gradients_test {

// Asked for a block at a time, as a step does.
std::vector<std::vector<float>> Gradients(PartitionGradients* part, int64_t dim) {
  std::vector<std::vector<float>> gradients;
  for (int64_t begin = 0; begin < part->num_unique(); begin += kBlockRows) {
    std::array<int64_t, kBlockRows> uniques;
    std::array<const float*, kBlockRows> found;
    const int64_t n = std::min(kBlockRows, part->num_unique() - begin);
    for (int64_t i = 0; i < n; ++i) {
      uniques[static_cast<size_t>(i)] = begin + i;
      part->Prefetch(begin + i);
    }
    part->Get(uniques.data(), n, found.data());
    for (int64_t i = 0; i < n; ++i) {
      gradients.emplace_back(found[static_cast<size_t>(i)], found[static_cast<size_t>(i)] + dim);
    }
  }
  return gradients;
}

struct Case {
  std::vector<int64_t> ids;
  Bags bags;
  int64_t dim;
  int64_t num_rows;
  FloatType type = FloatType::kFloat32;
};

std::vector<GradientSource> SourceOf(const Case& c, const void* grads) {
  return GradientSource::Make({{c.ids.data(), c.bags, GradientRows(grads, 0, c.type), c.dim}},
                              Inline());
}

void Find(const GradientSource& source, const Case& c, bool in_order, PartitionGradients* part) {
  part->Find(source, c.ids.data(), source.names(), static_cast<int64_t>(c.ids.size()), c.num_rows,
             in_order);
}

// Both ways, by an object that was used before.
void ExpectBothWaysRight(const Case& c, PartitionGradients* part) {
  const std::vector<char> grads =
      Placed(c.type, GradientsWithZeros(c.bags.num_bags * c.dim), c.dim, 0, c.dim);
  const std::vector<GradientSource> sources = SourceOf(c, grads.data());
  const auto expected =
      MergedBits({{c.ids.data(), c.bags, GradientRows(grads.data(), 0, c.type), c.dim}});
  for (const bool in_order : {true, false}) {
    Find(sources[0], c, in_order, part);
    std::map<int64_t, std::vector<uint32_t>> found;
    const std::vector<std::vector<float>> gradients = Gradients(part, c.dim);
    for (size_t u = 0; u < gradients.size(); ++u) {
      found[part->unique_ids()[u]] = Bits(gradients[u]);
    }
    ASSERT_TRUE(found == expected) << "dim " << c.dim << (in_order ? ", scattered" : ", gathered");
    ASSERT_EQ(gradients.size(), expected.size());
  }
}

TEST(PartitionGradients, AreTheSumsOfTheirOccurrencesEitherWay) {
  PartitionGradients part;
  for (const int64_t dim : {1, 3, 4, 8, 12, 16, 32, 33, 64, 100}) {
    for (const int64_t num_rows : {0, 500}) {
      const std::vector<int64_t> ids = RandomIds(3000, 0, 499, 1);
      ExpectBothWaysRight({ids, NoBags(ids), dim, num_rows}, &part);
    }
  }
}

TEST(PartitionGradients, AreThoseOfBagsByEachCombiner) {
  PartitionGradients part;
  const std::vector<int64_t> splits = RandomSplits(500, 5, 1);
  const std::vector<int64_t> ids = RandomIds(splits.back(), 0, 300, 2);
  const std::vector<float> weights = RandomFloats(splits.back(), 3);
  for (const Bags& bags : {BagsOf(Combiner::kSum, splits), BagsOf(Combiner::kSum, splits, weights),
                           BagsOf(Combiner::kMean, splits), BagsOf(Combiner::kSqrtN, splits),
                           BagsOf(Combiner::kMean, splits, weights)}) {
    for (const int64_t num_rows : {0, 301}) {
      ExpectBothWaysRight({ids, bags, 20, num_rows}, &part);
    }
  }
}

TEST(PartitionGradients, OfFrequentIdsAreTheSumsOfTheirRuns) {
  PartitionGradients part;
  const std::vector<int64_t> ids = FrequentIds();
  const auto n = static_cast<int64_t>(ids.size());
  const std::vector<int64_t> splits = {0, n / 3, n / 3, n};
  const std::vector<float> weights = RandomFloats(n, 3);
  for (const int64_t num_rows : {0, 10}) {
    for (const FloatType type : kFloatTypes) {
      ExpectBothWaysRight({ids, NoBags(ids), 4, num_rows, type}, &part);
      ExpectBothWaysRight({ids, BagsOf(Combiner::kSqrtN, splits, weights), 3, num_rows, type},
                          &part);
    }
  }
}

TEST(PartitionGradients, AreHandedOutAsTheyStandWhereTheyAreGathered) {
  constexpr int64_t kDim = 128;
  for (const int64_t n : {100, 4096, 4097}) {
    std::vector<int64_t> ids(static_cast<size_t>(n));
    std::iota(ids.begin(), ids.end(), 0);
    const Case c = {ids, NoBags(ids), kDim, 0};
    const std::vector<float> grads = RandomFloats(n * kDim, 7);
    const std::vector<GradientSource> sources = SourceOf(c, grads.data());
    PartitionGradients part;
    for (const bool in_order : {true, false}) {
      Find(sources[0], c, in_order, &part);
      const int64_t last = n - 1;
      const float* found = nullptr;
      part.Get(&last, 1, &found);
      // The sums of 4096 ids are 2 MiB, and more of them too many.
      const bool gathers = !in_order || n > 4096;
      EXPECT_EQ(found == grads.data() + last * kDim, gathers) << n;
    }
    ExpectBothWaysRight(c, &part);
  }
}

TEST(PartitionGradients, OfNothingAreNone) {
  PartitionGradients part;
  const std::vector<int64_t> none;
  ExpectBothWaysRight({none, NoBags(none), 8, 0}, &part);
  ExpectBothWaysRight({none, NoBags(none), 8, 100}, &part);
}

}  // namespace keras_sparse::partition_gradients_test
