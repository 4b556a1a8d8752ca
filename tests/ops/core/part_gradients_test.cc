#include "ops/core/part_gradients.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <vector>

#include "tests/ops/core/reference.h"
#include "tests/ops/core/table_testing.h"
#include "tests/ops/core/testing.h"

namespace keras_sparse {
namespace {

// Asked for a block at a time, as a step does.
std::vector<std::vector<float>> Gradients(PartGradients* part, int64_t dim) {
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

// Both ways, by an object that was used before.
void ExpectBothWaysRight(const Case& c, PartGradients* part) {
  const std::vector<float> grads = RandomFloats(c.bags.num_bags * c.dim, 7);
  const std::vector<GradientSource> sources =
      GradientSource::Make({{c.ids.data(), c.bags, grads.data(), c.dim}}, Inline());
  const auto reference = ReferenceMerge(c.ids, c.bags, grads, c.dim);
  std::vector<std::vector<float>> first;
  for (const bool in_order : {true, false}) {
    part->Find(sources[0], c.ids.data(), sources[0].names(), static_cast<int64_t>(c.ids.size()),
               c.num_rows, in_order);
    ASSERT_EQ(part->num_unique(), static_cast<int64_t>(reference.size()));
    const std::vector<std::vector<float>> gradients = Gradients(part, c.dim);
    for (size_t u = 0; u < gradients.size(); ++u) {
      ASSERT_TRUE(reference.count(part->unique_ids()[u]));
      ExpectNear(gradients[u], reference.at(part->unique_ids()[u]), 2e-5);
    }
    // Bit by bit: what comes out does not depend on how a step was cut into parts.
    if (in_order) first = gradients;
    EXPECT_EQ(gradients, first);
  }
}

TEST(PartGradients, AreTheSumsOfTheirOccurrencesEitherWay) {
  PartGradients part;
  for (const int64_t dim : {1, 3, 4, 8, 12, 16, 32, 33, 64, 100}) {
    for (const int64_t num_rows : {0, 500}) {
      const std::vector<int64_t> ids = RandomIds(3000, 0, 499, 1);
      ExpectBothWaysRight({ids, NoBags(ids), dim, num_rows}, &part);
    }
  }
}

TEST(PartGradients, AreThoseOfBagsByEachCombiner) {
  PartGradients part;
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

TEST(PartGradients, DoNotDependOnWhetherAllSumsFitIntoTheCache) {
  PartGradients part;
  const std::vector<int64_t> ids = RandomIds(9000, 0, 8000, 4);
  for (const int64_t dim : {16, 17, 64}) ExpectBothWaysRight({ids, NoBags(ids), dim, 0}, &part);
}

TEST(PartGradients, OfNothingAreNone) {
  PartGradients part;
  const std::vector<int64_t> none;
  ExpectBothWaysRight({none, NoBags(none), 8, 0}, &part);
  ExpectBothWaysRight({none, NoBags(none), 8, 100}, &part);
}

TEST(PartGradients, AddInInputOrder) {
  // In any other order the ones are lost beside the large number.
  const std::vector<int64_t> ids = {5, 5, 5, 5};
  const std::vector<float> grads = {1, 1, 1 << 24, -(1 << 24)};
  const std::vector<GradientSource> sources =
      GradientSource::Make({{ids.data(), NoBags(ids), grads.data(), 1}}, Inline());
  PartGradients part;
  for (const bool in_order : {true, false}) {
    part.Find(sources[0], ids.data(), nullptr, 4, 0, in_order);
    EXPECT_EQ(Gradients(&part, 1), (std::vector<std::vector<float>>{{2}}));
  }
}

}  // namespace
}  // namespace keras_sparse
