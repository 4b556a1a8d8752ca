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
};

std::vector<GradientSource> SourceOf(const Case& c, const std::vector<float>& grads) {
  return GradientSource::Make({{c.ids.data(), c.bags, grads.data(), c.dim}}, Inline());
}

void Find(const GradientSource& source, const Case& c, bool in_order, PartitionGradients* part) {
  part->Find(source, c.ids.data(), source.names(), static_cast<int64_t>(c.ids.size()), c.num_rows,
             in_order);
}

// Both ways, by an object that was used before.
void ExpectBothWaysRight(const Case& c, PartitionGradients* part) {
  std::vector<float> grads = RandomFloats(c.bags.num_bags * c.dim, 7);
  for (size_t i = 0; i < grads.size(); i += 5) grads[i] = i % 2 == 0 ? 0.0f : -0.0f;
  const std::vector<GradientSource> sources = SourceOf(c, grads);
  const auto reference = ReferenceMerge(c.ids, c.bags, grads, c.dim);
  std::vector<std::vector<float>> scattered;
  for (const bool in_order : {true, false}) {
    Find(sources[0], c, in_order, part);
    ASSERT_EQ(part->num_unique(), static_cast<int64_t>(reference.size()));
    const std::vector<std::vector<float>> gradients = Gradients(part, c.dim);
    for (size_t u = 0; u < gradients.size(); ++u) {
      ASSERT_TRUE(reference.count(part->unique_ids()[u]));
      ExpectNear(gradients[u], reference.at(part->unique_ids()[u]), 5e-5);
      // What comes out does not depend on how a step was cut into parts.
      if (!in_order) {
        ASSERT_EQ(Bits(gradients[u]), Bits(scattered[u]));
      }
    }
    scattered = gradients;
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

TEST(PartitionGradients, OfIdsThatOccurInManyBlocks) {
  PartitionGradients part;
  for (const int64_t dim : {1, 8, 33}) {
    const std::vector<int64_t> ids = RandomIds(2000, 0, 9, 4);
    ExpectBothWaysRight({ids, NoBags(ids), dim, 0}, &part);
  }
}

TEST(PartitionGradients, AreHandedOutAsTheyStandWhereTheyAreGathered) {
  constexpr int64_t kDim = 128;
  for (const int64_t n : {100, 4096, 4097}) {
    std::vector<int64_t> ids(static_cast<size_t>(n));
    std::iota(ids.begin(), ids.end(), 0);
    const Case c = {ids, NoBags(ids), kDim, 0};
    const std::vector<float> grads = RandomFloats(n * kDim, 7);
    const std::vector<GradientSource> sources = SourceOf(c, grads);
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

TEST(PartitionGradients, AddInInputOrder) {
  // The first one is lost beside the large number, and the second one is not. Backwards it is 1 too
  // many.
  const std::vector<float> values = {1 << 24, 1, -(1 << 24), 1};
  const std::vector<int64_t> ids = {5, 5, 5, 5};
  for (const int64_t dim : {1, 8, 13}) {
    const Case c = {ids, NoBags(ids), dim, 0};
    std::vector<float> grads;
    for (const float value : values) grads.insert(grads.end(), static_cast<size_t>(dim), value);
    const std::vector<GradientSource> sources = SourceOf(c, grads);
    PartitionGradients part;
    for (const bool in_order : {true, false}) {
      Find(sources[0], c, in_order, &part);
      EXPECT_EQ(Gradients(&part, dim)[0], std::vector<float>(static_cast<size_t>(dim), 1.0f));
    }
  }
}

}  // namespace keras_sparse::partition_gradients_test
