// A table counts its own steps: one for each update, whatever becomes of it.
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "ops/core/operations/clear_rows.h"
#include "ops/core/stores/dram_store.h"
#include "tests/ops/core/support/drift_rule.h"
#include "tests/ops/core/support/table_access.h"

namespace keras_sparse::step_test {

// Of a row of zeros that was kicked once and has drifted on for `steps`.
std::vector<float> DriftedRow(int64_t steps) {
  float row = 0;
  float velocity = 1024;
  for (int64_t i = 0; i <= steps; ++i, velocity /= 2) row -= velocity;
  return {row, row};
}

TEST(Step, IsEachUpdateAlsoWithoutIds) {
  for (const int64_t input_dim : {-1, 6}) {
    const auto table = OpenDrift(input_dim);
    ASSERT_TRUE(IsOk(Kick(table.get(), {1})));
    for (int64_t steps = 0; steps < 10; ++steps) {
      EXPECT_EQ(Lookup(table.get(), {1}), DriftedRow(steps));
      ASSERT_TRUE(IsOk(Kick(table.get(), {})));
    }
  }
}

TEST(Step, IsOfEachTableOfItsOwn) {
  const auto often = OpenDrift(-1);
  const auto rarely = OpenDrift(-1);
  ASSERT_TRUE(IsOk(Kick(often.get(), {1})));
  ASSERT_TRUE(IsOk(Kick(rarely.get(), {1})));
  PassSteps(often.get(), {1}, 3);
  const std::vector<int64_t> ids;
  ASSERT_TRUE(IsOk(ApplyGradients(
      {Request(often.get(), ids, NoBags(ids), {}), Request(rarely.get(), ids, NoBags(ids), {})},
      Inline())));
  EXPECT_EQ(Lookup(often.get(), {1}), DriftedRow(4));
  EXPECT_EQ(Lookup(rarely.get(), {1}), DriftedRow(1));
}

TEST(Step, IsNoRefusedUpdate) {
  const auto table = OpenDrift(6);
  ASSERT_TRUE(IsOk(Kick(table.get(), {1})));
  EXPECT_FALSE(Kick(table.get(), {6}).ok());                         // outside the table
  EXPECT_FALSE(Apply(table.get(), {1, 2}, {1}, {1024, 1024}).ok());  // a number too many
  const std::vector<int64_t> ids = {1};
  const std::vector<float> grads = {1024, 1024};
  ApplyRequest late = Request(table.get(), ids, NoBags(ids), grads);
  --late.rule_generation;
  EXPECT_FALSE(ApplyGradients({late}, Inline()).ok());
  const ApplyRequest request = Request(table.get(), ids, NoBags(ids), grads);
  EXPECT_FALSE(ApplyGradients({request, request}, Inline()).ok());
  EXPECT_EQ(Lookup(table.get(), {1}), DriftedRow(0));
}

TEST(Step, BeginsAnewWithARule) {
  for (const int64_t input_dim : {-1, 6}) {
    const auto table = OpenDrift(input_dim);
    ASSERT_TRUE(IsOk(Kick(table.get(), {1})));
    PassSteps(table.get(), {1}, 5);
    // Every row has a velocity from the start.
    ASSERT_TRUE(IsOk(SetRule(table.get(), DriftRule(1024), Inline())));
    const std::vector<float> row = Lookup(table.get(), {1});
    EXPECT_EQ(row, DriftedRow(5));
    PassSteps(table.get(), {1}, 2);
    EXPECT_EQ(Lookup(table.get(), {1}), (std::vector<float>{row[0] - 768, row[1] - 768}));
  }
}

TEST(Step, OfANewRowIsTheOneItIsCreatedIn) {
  const auto table = OpenDrift(-1, 1024);
  PassSteps(table.get(), {1}, 3);
  EXPECT_EQ(Lookup(table.get(), {1}), (std::vector<float>{0, 0}));
  ASSERT_TRUE(IsOk(Kick(table.get(), {1})));
  EXPECT_EQ(Lookup(table.get(), {1}), (std::vector<float>{-512 - 1024, -512 - 1024}));
  const int64_t key = 2;
  const std::vector<float> row = {8, 8};
  ASSERT_TRUE(IsOk(ImportRows(table.get(), &key, 1, row.data(), 2, Inline())));
  EXPECT_EQ(Lookup(table.get(), {2}), row);
  PassSteps(table.get(), {1}, 1);
  EXPECT_EQ(Lookup(table.get(), {2}), (std::vector<float>{8 - 512, 8 - 512}));
}

TEST(Step, GoesOnAfterClearWhichBringsRowsBackAsTheyBegan) {
  const auto table = OpenDrift(6, 1024);
  PassSteps(table.get(), {1}, 3);
  EXPECT_EQ(Lookup(table.get(), {1}), (std::vector<float>{-896, -896}));
  ASSERT_TRUE(IsOk(ClearRows(table.get(), Inline())));
  EXPECT_EQ(Lookup(table.get(), {1}), (std::vector<float>{0, 0}));
  PassSteps(table.get(), {1}, 2);
  EXPECT_EQ(Lookup(table.get(), {1}), (std::vector<float>{-768, -768}));
  ASSERT_TRUE(IsOk(Kick(table.get(), {1})));
  EXPECT_EQ(Lookup(table.get(), {1}), (std::vector<float>{-896 - 1024, -896 - 1024}));
}

// A store that never lets go of a row.
class StickyStore : public DramStore {
 public:
  using DramStore::DramStore;
  Status Erase(const int64_t* /*keys*/, int64_t n) override {
    return n == 0 ? Status::Ok() : Status(StatusCode::kDataLoss, "the disk is gone");
  }
};

TEST(Step, EndsIfAStoreFailsAfterTheUpdate) {
  const auto table = OpenDrift(-1);
  ASSERT_TRUE(IsOk(AddLowerTier(table.get(), std::make_unique<StickyStore>(20))));
  ASSERT_TRUE(IsOk(Kick(table.get(), {1, 2})));
  const int64_t key = 1;
  ASSERT_TRUE(IsOk(Demote(table.get(), &key, 1)));
  EXPECT_EQ(Kick(table.get(), {1}).code(), StatusCode::kDataLoss);
  EXPECT_EQ(Lookup(table.get(), {1}), (std::vector<float>{-1024 - 1536, -1024 - 1536}));
  EXPECT_EQ(Lookup(table.get(), {2}), DriftedRow(1));
}

// While it lives, the process gets hardly any more memory.
class MemoryLimit {
 public:
  MemoryLimit() {
    EXPECT_EQ(getrlimit(RLIMIT_AS, &before_), 0);
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit limit = before_;
    limit.rlim_cur = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + (int64_t{12} << 20));
    EXPECT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  }
  ~MemoryLimit() { EXPECT_EQ(setrlimit(RLIMIT_AS, &before_), 0); }

 private:
  rlimit before_;
};

TEST(Step, EndsIfMemoryEndsHalfWay) {
  constexpr int64_t kDim = 1 << 19;  // so that memory for the next four rows is 16 MB
  TableOptions options = Zeros(-1);
  options.output_dim = kDim;
  const auto table = OpenWithRule(options, DriftRule());
  const std::vector<float> grads(static_cast<size_t>(2 * kDim), 1024);
  ASSERT_TRUE(IsOk(Apply(table.get(), {1}, {1, 2}, grads)));
  {
    const MemoryLimit limit;
    EXPECT_EQ(Apply(table.get(), {1}, {1, 3}, grads).code(), StatusCode::kResourceExhausted);
  }
  EXPECT_EQ(NumRowsOf(*table), 2);
  const std::vector<float> rows = Lookup(table.get(), {1, 2, 3});
  // The row that was to be updated has been, or else has drifted on like the other one.
  const float row = rows[0];
  EXPECT_TRUE(row == -1024 - 1536 || row == -1024 - 512) << row;
  EXPECT_EQ(rows[kDim - 1], row);
  EXPECT_EQ(rows[kDim], -1024 - 512);
  EXPECT_EQ(rows[2 * kDim], 0);
  // And so it goes on.
  ASSERT_TRUE(IsOk(Apply(table.get(), {1}, {}, {})));
  EXPECT_EQ(Lookup(table.get(), {2})[0], -1024 - 512 - 256);
}

}  // namespace keras_sparse::step_test
