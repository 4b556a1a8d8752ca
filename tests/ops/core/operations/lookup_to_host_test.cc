#include <algorithm>
#include <utility>

#include "tests/ops/core/device/device_testing.h"
#include "tests/ops/core/support/table_testing.h"

namespace keras_sparse::lookup_to_host_test {

// Tables of some widths, each in memory and on a GPU, trained alike.
class LookupRowsToHostTest : public testing::Test {
 protected:
  LookupRowsToHostTest() : device_(OpenDevice()) {
    for (const int64_t dim : {3, 8}) {
      for (const bool is_on_gpu : {false, true}) {
        TableOptions options = Dynamic(dim);
        if (is_on_gpu) options.storage.device = device_;
        tables_.push_back(OpenWithRule(options, AdagradRule(0.1)));
        EXPECT_TRUE(
            IsOk(Apply(tables_.back().get(), {0.1f}, {1, 2, 3, 2}, RandomFloats(4 * dim, 1))));
      }
    }
  }

  // Tables 0 and 2 are in memory, 1 and 3 the same on the GPU.
  EmbeddingTable* table(size_t i) const { return tables_[i].get(); }

  std::shared_ptr<Device> device_;
  std::vector<std::unique_ptr<EmbeddingTable>> tables_;
  std::vector<int64_t> ids_ = {2, 9, -5, 1, 1, 3};
  std::vector<int64_t> splits_ = {0, 2, 2, 6};
  std::vector<float> weights_ = {1, -2, 0.5f, 3, 1, 0.25f};
};

// Of each table means, rows one by one and sums, behind one another; two floats on those of the
// next.
std::vector<float> Read(const std::vector<EmbeddingTable*>& tables, const std::vector<int64_t>& ids,
                        const std::vector<int64_t>& splits, const std::vector<float>& weights,
                        std::vector<int64_t>* versions) {
  std::vector<float> rows(200, -1);
  std::vector<LookupRequest> requests;
  float* next = rows.data();
  for (size_t i = 0; i < tables.size(); ++i) {
    requests.push_back({tables[i], nullptr, Bags(), nullptr, &(*versions)[i]});
    for (const Bags& bags :
         {BagsOf(Combiner::kMean, splits, weights), NoBags(ids), BagsOf(Combiner::kSum, splits)}) {
      requests.push_back({tables[i], ids.data(), bags, next});
      next += bags.num_bags * tables[i]->dim();
    }
    next += 2;
  }
  std::reverse(requests.begin(), requests.end());
  EXPECT_TRUE(IsOk(LookupRowsToHost(requests, Inline())));
  return rows;
}

TEST_F(LookupRowsToHostTest, GivesTheBitsOfTablesInMemoryWhereverTablesAre) {
  std::vector<int64_t> versions(2);
  const std::vector<float> expected =
      Read({table(0), table(2)}, ids_, splits_, weights_, &versions);
  const std::vector<int64_t> expected_versions = versions;
  EXPECT_GT(versions[0], 0);
  for (const auto& [first, second] : {std::pair(1, 3), std::pair(0, 3), std::pair(1, 2)}) {
    versions = {0, 0};
    InAnyOrder([&, first = first, second = second] {
      EXPECT_EQ(Bits(Read({table(first), table(second)}, ids_, splits_, weights_, &versions)),
                Bits(expected));
    });
    EXPECT_EQ(versions, expected_versions);
  }
}

TEST_F(LookupRowsToHostTest, GivesTheErrorsOfTablesInMemory) {
  TableOptions options = Options(5, 4);
  options.storage.device = device_;
  const auto table = Open(options);
  const std::vector<int64_t> ids = {4, 5};
  std::vector<float> rows(8);
  EXPECT_TRUE(
      FailsWith(StatusCode::kInvalidArgument, "Received: ids[1] = 5",
                LookupRowsToHost({{table.get(), ids.data(), NoBags(ids), rows.data()}}, Inline())));
  const std::vector<int64_t> splits = {0, 2, 1, 2};
  EXPECT_TRUE(FailsWith(
      StatusCode::kInvalidArgument, "row_splits",
      LookupRowsToHost({{table.get(), ids.data(), BagsOf(Combiner::kSum, splits), rows.data()}},
                       Inline())));
}

}  // namespace keras_sparse::lookup_to_host_test
