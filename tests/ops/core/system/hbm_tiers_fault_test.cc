// A table in a GPU's memory over a tier that fails, or on a GPU without room: nothing is lost, and
// no row is without content.
#include <utility>

#include "ops/core/operations/evict_rows.h"
#include "tests/ops/core/device/device_testing.h"
#include "tests/ops/core/support/check_store.h"
#include "tests/ops/core/support/hbm_stacks.h"
#include "tests/ops/core/support/small_store.h"

namespace keras_sparse::hbm_tiers_fault_test {

constexpr int64_t kDim = 8;
constexpr int64_t kRows = 600;

// The one that was opened last.
SmallStore* faulty = nullptr;
const bool kRegistered =
    RowStore::Register("faulty", [](const StoreOptions& options, std::unique_ptr<RowStore>* store) {
      auto made = std::make_unique<SmallStore>(options.record_bytes, int64_t{1} << 30);
      faulty = made.get();
      *store = std::move(made);
      return Status::Ok();
    });

// Rows 0 to 599, of which some are on the GPU, and another table that has all in memory.
class HbmTiersFault : public ::testing::Test {
 protected:
  HbmTiersFault() : plain_(OpenWithRule(Dynamic(kDim), AdagradRule(0.1))) {
    TableOptions options = Dynamic(kDim);
    options.storage = HbmOver({"faulty"}, 100 * 96, 1, folder_ / "rows");
    tiered_ = OpenWithRule(options, AdagradRule(0.1));
    for (int64_t begin = 0; begin < kRows; begin += 100) {
      Apply(Range(begin, begin + 100), 1);
    }
    EXPECT_LE(TierStatsOf(*tiered_)[0].rows, 100);
    EXPECT_GT(TierStatsOf(*tiered_)[1].rows, 400);
  }

  std::vector<EmbeddingTable*> both() const { return {tiered_.get(), plain_.get()}; }
  static Status ApplyTo(EmbeddingTable* table, const std::vector<int64_t>& ids, uint64_t seed) {
    const auto n = static_cast<int64_t>(ids.size());
    return keras_sparse::Apply(table, {0.1f}, ids, RandomFloats(n * kDim, seed));
  }
  void Apply(const std::vector<int64_t>& ids, uint64_t seed) const {
    for (EmbeddingTable* table : both()) ASSERT_TRUE(IsOk(ApplyTo(table, ids, seed)));
  }
  Status LookupTiered(const std::vector<int64_t>& ids) const {
    std::vector<float> rows(ids.size() * kDim);
    return LookupOnDevice(tiered_.get(), ids, NoBags(ids), &rows, Inline());
  }
  void ExpectSameRows(const std::vector<int64_t>& ids) const {
    ASSERT_EQ(Bits(Lookup(tiered_.get(), ids)), Bits(Lookup(plain_.get(), ids)));
  }
  void ExpectSame() const {
    ASSERT_EQ(ExportAll(*tiered_), ExportAll(*plain_));
    ASSERT_EQ(NumRowsOf(*tiered_), NumRowsOf(*plain_));
  }

  const TempFolder folder_;
  std::unique_ptr<EmbeddingTable> tiered_;
  std::unique_ptr<EmbeddingTable> plain_;
};

TEST_F(HbmTiersFault, FailsWhatNeedsARowThatCannotBeRead) {
  const std::vector<int64_t> ids = RandomIds(200, -50, kRows, 2);
  const auto before = TierStatsOf(*tiered_);
  faulty->fails_get = true;
  EXPECT_TRUE(FailsWith(StatusCode::kDataLoss, "record 3 is damaged", LookupTiered(ids)));
  EXPECT_TRUE(
      FailsWith(StatusCode::kDataLoss, "record 3 is damaged", ApplyTo(tiered_.get(), ids, 2)));
  faulty->fails_get = false;
  EXPECT_EQ(TierStatsOf(*tiered_)[0].rows, before[0].rows);
  EXPECT_EQ(TierStatsOf(*tiered_)[1].rows, before[1].rows);
  ExpectSame();
  ExpectSameRows(ids);
  Apply(ids, 2);
  ExpectSame();
}

TEST_F(HbmTiersFault, KeepsRowsThatCannotGoDownAndStopsBeforeTheNextStep) {
  faulty->puts_left = 0;
  Status status;
  for (int64_t step = 0; step < 20; ++step) {
    const std::vector<int64_t> ids = Range(1000 + 50 * step, 1050 + 50 * step);
    const Status applied = ApplyTo(tiered_.get(), ids, 3);
    if (applied.ok()) {
      ASSERT_TRUE(IsOk(status)) << "the disk is full for good";
      ASSERT_TRUE(IsOk(ApplyTo(plain_.get(), ids, 3)));
    } else {
      status = applied;
    }
    ExpectSameRows(ids);
    ExpectSame();
  }
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "the disk is full", status));
  EXPECT_EQ(LookupTiered(Range(0, kRows)).code(), StatusCode::kOk);
  faulty->puts_left = INT64_MAX;
  Apply(RandomIds(100, 0, 2000, 4), 4);
  EXPECT_LE(TierStatsOf(*tiered_)[0].rows, 100);
  ExpectSame();
}

TEST_F(HbmTiersFault, CountsTheRowAboveWhereOneBelowCannotBeErased) {
  faulty->fails_erase = true;
  for (uint64_t step = 0; step < 5; ++step) {
    const std::vector<int64_t> ids = RandomIds(30, 0, kRows, step);
    // The step is made even where the error comes with it.
    (void)ApplyTo(tiered_.get(), ids, step);
    ASSERT_TRUE(IsOk(ApplyTo(plain_.get(), ids, step)));
    ExpectSameRows(Range(0, kRows));
    ASSERT_EQ(ExportAll(*tiered_), ExportAll(*plain_));
    if (step == 0) continue;
    faulty->fails_erase = false;
    Apply(RandomIds(30, 0, kRows, step + 50), step);
    ExpectSame();
    faulty->fails_erase = true;
  }
}

#ifndef __CUDACC__
TEST_F(HbmTiersFault, HasNoRowWithoutContentWhateverMemoryIsMissing) {
  // The emulated GPU's memory is that of the process. Rows on the GPU, below it, and new ones.
  std::vector<int64_t> ids = RandomIds(60, 0, kRows + 40, 5);
  const std::vector<float> grads = RandomFloats(60 * kDim, 5);
  std::vector<float> rows(60 * kDim);
  FailAtEachAllocation(
      [&] { return LookupRows({{tiered_.get(), ids.data(), NoBags(ids), rows.data()}}, Inline()); },
      [&] {}, 11);
  EXPECT_EQ(Bits(rows), Bits(Lookup(plain_.get(), ids)));
  const ApplyRequest request =
      keras_sparse::Request(tiered_.get(), ids, NoBags(ids), grads, {0.1f});
  FailAtEachAllocation([&] { return ApplyGradients({request}, Inline()); },
                       [&] { ExpectSameRows(Range(-5, kRows + 50)); }, 17);
  ASSERT_TRUE(IsOk(keras_sparse::Apply(plain_.get(), {0.1f}, ids, grads)));
  ExpectSame();
}

TEST_F(HbmTiersFault, StaysAsItIsWhereNewSlotsFindNoRoom) {
  FailAtEachAllocation([&] { return SetRule(tiered_.get(), AdamRule("lazy_adam"), Inline()); },
                       [&] { ExpectSame(); }, 3);
  ASSERT_TRUE(IsOk(SetRule(plain_.get(), AdamRule("lazy_adam"), Inline())));
  ExpectSame();
}

TEST_F(HbmTiersFault, HoldsWhatAnImportBringsToAFullGpu) {
  const std::vector<int64_t> keys = Range(0, 5000);
  const std::vector<float> records = RandomFloats(5000 * 2 * kDim, 6);
  emulated::options().allocations_left = 0;
  ASSERT_TRUE(IsOk(ImportToEach(both(), keys, records)));
  emulated::options().allocations_left = INT64_MAX;
  ExpectSame();
  EXPECT_TRUE(
      FailsWith(StatusCode::kResourceExhausted, "5000 rows that wait for room", LookupTiered({1})));
  // There is room again.
  const std::vector<int64_t> gone = {7};
  for (EmbeddingTable* table : both()) {
    ASSERT_TRUE(IsOk(EraseRows(table, gone.data(), 1, Inline())));
  }
  ExpectSame();
  ExpectSameRows(keys);
  EXPECT_LE(TierStatsOf(*tiered_)[0].rows, 100);
}
#endif

// Whole updates are seen, or nothing of them, while rows go down and come up.
TEST(HbmTiersThreads, ReadRowsWhileTheyMove) {
  TableOptions options = Dynamic(kDim);
  options.initializer = {};
  options.storage = HbmOver({"dram"}, 20 * 64, 1);
  const auto table = OpenWithRule(options, SgdRule());
  const std::vector<int64_t> ids = {5, -5, 1 << 20, 7};
  ReadEqualRowsWhile(table.get(), ids, [&] {
    for (int step = 0; step < 8; ++step) {
      ASSERT_TRUE(IsOk(Subtract(table.get(), ids, std::vector<float>(ids.size() * kDim, -1))));
      const std::vector<int64_t> others = RandomIds(40, 1000, 100000, static_cast<uint64_t>(step));
      ASSERT_TRUE(IsOk(Subtract(table.get(), others, std::vector<float>(40 * kDim, 1))));
    }
  });
  EXPECT_EQ(Lookup(table.get(), ids), std::vector<float>(ids.size() * kDim, 8));
  EXPECT_GT(TierStatsOf(*table)[0].promotions, 16);
}

}  // namespace keras_sparse::hbm_tiers_fault_test
