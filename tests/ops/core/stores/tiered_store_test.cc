#include "ops/core/stores/tiered_store.h"

#include "tests/ops/core/support/check_moving_rows.h"
#include "tests/ops/core/support/faulty_file_system.h"
#include "tests/ops/core/support/small_store.h"

namespace keras_sparse::tiered_store_test {

constexpr int64_t kBytes = 12;

// A cascade of stores that the test can see.
struct Cascade {
  std::unique_ptr<RowStore> store;
  SmallStore* upper;
  SmallStore* lower;
};

Cascade Open(int64_t upper_rows, int64_t lower_rows = INT64_MAX / 2,
             int64_t record_bytes = kBytes) {
  Cascade cascade;
  auto upper = std::make_unique<SmallStore>(record_bytes, upper_rows);
  auto lower = std::make_unique<SmallStore>(record_bytes, lower_rows);
  cascade.upper = upper.get();
  cascade.lower = lower.get();
  EXPECT_TRUE(IsOk(TieredStore::Open(std::move(upper), std::move(lower), &cascade.store)));
  return cascade;
}

void ExpectTiers(const Cascade& cascade, const StoredRecords& upper, const StoredRecords& lower) {
  EXPECT_EQ(WalkStore(*cascade.upper, 1000), upper);
  EXPECT_EQ(WalkStore(*cascade.lower, 1000), lower);
  StoredRecords all = upper;
  all.insert(lower.begin(), lower.end());
  EXPECT_EQ(WalkStore(*cascade.store, 2), all);
  EXPECT_EQ(cascade.store->num_rows(), static_cast<int64_t>(all.size()));
}

// A tier above a cascade.
std::unique_ptr<RowStore> OpenThree(int64_t record_bytes) {
  std::unique_ptr<RowStore> store;
  EXPECT_TRUE(IsOk(TieredStore::Open(std::make_unique<SmallStore>(record_bytes, 20),
                                     Open(50, INT64_MAX / 2, record_bytes).store, &store)));
  return store;
}

TEST(TieredStore, KeepsTheContractOfAStore) {
  CheckStore(OpenThree);
  for (const int64_t upper_rows : {0, 1, 30, 300, 1000000}) {
    CheckStore(
        [&](int64_t record_bytes) { return Open(upper_rows, INT64_MAX / 2, record_bytes).store; });
  }
}

TEST(TieredStore, MovesTheOldestRowsDown) {
  const Cascade cascade = Open(3);
  EXPECT_STREQ(cascade.store->tier(), "dram_dram");
  const auto records = [](const std::vector<int64_t>& keys, int64_t version) {
    return Records(keys, version, kBytes);
  };
  for (int64_t key = 1; key <= 5; ++key) {
    ASSERT_TRUE(IsOk(PutRecords(cascade.store.get(), {key}, 1)));
  }
  ExpectTiers(cascade, records({3, 4, 5}, 1), records({1, 2}, 1));
  // A record that replaces another one goes where that is.
  ASSERT_TRUE(IsOk(PutRecords(cascade.store.get(), {1, 3}, 2)));
  StoredRecords upper = records({4, 5}, 1);
  upper[3] = MakeRecord(3, 2, kBytes);
  StoredRecords lower = records({2}, 1);
  lower[1] = MakeRecord(1, 2, kBytes);
  ExpectTiers(cascade, upper, lower);
  // It is as good as new: key 4 leaves before it does.
  ASSERT_TRUE(IsOk(PutRecords(cascade.store.get(), {6}, 1)));
  upper.erase(4);
  upper[6] = MakeRecord(6, 1, kBytes);
  lower[4] = MakeRecord(4, 1, kBytes);
  ExpectTiers(cascade, upper, lower);
  const std::vector<int64_t> gone = {1, 6, 77};
  ASSERT_TRUE(IsOk(cascade.store->Erase(gone.data(), 3)));
  upper.erase(6);
  lower.erase(1);
  ExpectTiers(cascade, upper, lower);
}

TEST(TieredStore, LetsTheFirstRowsOfALargeBatchGoPastTheUpperTier) {
  const Cascade cascade = Open(3);
  ASSERT_TRUE(IsOk(PutRecords(cascade.store.get(), {100, 101}, 1)));
  // Of key 1 the last record stays, and counts as put where that is.
  ASSERT_TRUE(IsOk(PutRecords(cascade.store.get(), {1, 2, 3, 4, 5, 1}, 1)));
  ExpectTiers(cascade, Records({4, 5, 1}, 1, kBytes), Records({100, 101, 2, 3}, 1, kBytes));
}

TEST(TieredStore, RefusesAnUpperTierThatKnowsNoOrder) {
  auto upper = std::make_unique<DramStore>(kBytes);
  std::unique_ptr<RowStore> store;
  EXPECT_TRUE(
      FailsWith(StatusCode::kUnimplemented, "dram does not; make it the last one",
                TieredStore::Open(std::move(upper), std::make_unique<DramStore>(kBytes), &store)));
}

TEST(TieredStore, LeavesRowsWhereTheyAreWhenTheLastTierIsFull) {
  const Cascade cascade = Open(10, 5);
  ASSERT_TRUE(IsOk(PutRecords(cascade.store.get(), Range(0, 13), 1)));
  const StoredRecords upper = Records(Range(3, 13), 1, kBytes);
  const StoredRecords lower = Records(Range(0, 3), 1, kBytes);
  ExpectTiers(cascade, upper, lower);
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "the tier is full",
                        PutRecords(cascade.store.get(), Range(13, 16), 1)));
  ExpectTiers(cascade, upper, lower);
  // More than both hold: what can move has moved, and nothing of the batch is there.
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "the tier is full",
                        PutRecords(cascade.store.get(), Range(5, 40), 2)));
  EXPECT_EQ(WalkStore(*cascade.store, 4), Records(Range(0, 13), 1, kBytes));
  // Rows that are there can still be replaced, and two more fit.
  ASSERT_TRUE(IsOk(PutRecords(cascade.store.get(), Range(0, 13), 3)));
  ASSERT_TRUE(IsOk(PutRecords(cascade.store.get(), Range(13, 15), 3)));
  EXPECT_EQ(WalkStore(*cascade.store, 4), Records(Range(0, 15), 3, kBytes));
}

TEST(TieredStore, NeverBringsAnOldRowBack) {
  const Cascade cascade = Open(2);
  RowStore* store = cascade.store.get();
  ASSERT_TRUE(IsOk(PutRecords(store, {1, 2}, 1)));
  // Key 1 is copied down but stays above.
  cascade.upper->fails_erase = true;
  EXPECT_TRUE(FailsWith(StatusCode::kDataLoss, "the disk is gone", PutRecords(store, {3}, 1)));
  ASSERT_EQ(cascade.lower->num_rows(), 1);
  EXPECT_EQ(WalkStore(*store, 1), Records({1, 2}, 1, kBytes));
  // What is below is old from here on.
  ASSERT_TRUE(IsOk(PutRecords(store, {1}, 2)));
  ExpectStored(*store, {1}, Records({1}, 2, kBytes));
  const int64_t key = 1;
  EXPECT_EQ(store->Erase(&key, 1).code(), StatusCode::kDataLoss);
  ExpectStored(*store, {1}, Records({1}, 2, kBytes));
  cascade.upper->fails_erase = false;
  cascade.lower->fails_erase = true;
  EXPECT_EQ(store->Erase(&key, 1).code(), StatusCode::kDataLoss);
  ExpectStored(*store, {1}, Records({1}, 2, kBytes));
  cascade.lower->fails_erase = false;
  // All is as it should be with the next move.
  ASSERT_TRUE(IsOk(PutRecords(store, {3, 4}, 1)));
  ExpectTiers(cascade, Records({3, 4}, 1, kBytes),
              {{1, MakeRecord(1, 2, kBytes)}, {2, MakeRecord(2, 1, kBytes)}});
  ASSERT_TRUE(IsOk(store->Erase(&key, 1)));
  ExpectStored(*store, {1}, {});
}

TEST(TieredStore, ReportsATierThatFailsAndLosesNothing) {
  for (int64_t puts = 0; puts < 8; ++puts) {
    const Cascade cascade = Open(8);
    StoredRecords expected = Records(Range(0, 20), 0, kBytes);
    ASSERT_TRUE(IsOk(PutRecords(cascade.store.get(), Range(0, 20), 0)));
    (puts % 2 == 0 ? cascade.lower : cascade.upper)->puts_left = puts / 2;
    Status status;
    for (int64_t version = 1; status.ok(); ++version) {
      ASSERT_LT(version, 20);
      const std::vector<int64_t> keys = RandomIds(6, 0, 60, static_cast<uint64_t>(version));
      status = PutRecords(cascade.store.get(), keys, version);
      // Each key has its old record or its new one.
      const StoredRecords renewed = Records(keys, version, kBytes);
      const StoredRecords all = WalkStore(*cascade.store, 100);
      for (const auto& [key, record] : renewed) {
        const auto at = all.find(key);
        if (status.ok() || (at != all.end() && at->second == record)) expected[key] = record;
      }
      ASSERT_EQ(all, expected);
    }
    EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "the disk is full", status));
    cascade.lower->puts_left = cascade.upper->puts_left = INT64_MAX;
    ASSERT_TRUE(IsOk(PutRecords(cascade.store.get(), Range(0, 70), 50)));
    ASSERT_EQ(WalkStore(*cascade.store, 100), Records(Range(0, 70), 50, kBytes));
    cascade.lower->fails_get = true;
    bool found = false;
    std::string record(kBytes, '?');
    const int64_t key = 0;
    EXPECT_EQ(cascade.store->Get(&key, 1, record.data(), &found).code(), StatusCode::kDataLoss);
  }
}

// A few rows in memory over an SSD.
std::unique_ptr<RowStore> OverSsd(const std::string& folder, int64_t upper_rows,
                                  FileSystem* file_system) {
  auto lower = OpenSsd(SsdOf(folder, kBytes, 512, file_system));
  std::unique_ptr<RowStore> store;
  EXPECT_TRUE(IsOk(TieredStore::Open(std::make_unique<SmallStore>(kBytes, upper_rows),
                                     std::move(lower), &store)));
  return store;
}

TEST(TieredStore, LinksTheRowsBelowAndWalksThoseAbove) {
  const TempFolder folder;
  const auto store = OverSsd(folder / "store", 30, FileSystem::Posix());
  EXPECT_FALSE(store->links_all());
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 100), 1)));
  ASSERT_TRUE(IsOk(PutRecords(store.get(), {5, 80, 99}, 2)));
  StoredRecords expected = Records(Range(0, 100), 1, kBytes);
  for (const auto& [key, record] : Records({5, 80, 99}, 2, kBytes)) expected[key] = record;
  std::vector<LinkedFile> files;
  EXPECT_EQ(LinkStore(store.get(), folder / "x-", &files), expected);
  EXPECT_EQ(ReadLinked(files, kBytes).size(), 70u);
  EXPECT_EQ(WalkStore(*store, 7, &RowStore::WalkUnlinked).size(), 30u);
  EXPECT_EQ(WalkStore(*store, 7), expected) << "the other walk stays what it is";
}

TEST(TieredStore, LinksNoOldRowAfterAMoveThatFailed) {
  const TempFolder folder;
  FaultyFileSystem file_system;
  const auto store = OverSsd(folder / "store", 100, &file_system);
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 100), 1)));
  file_system.writes_left = 2;  // some rows get down before the disk is full
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "could not write",
                        PutRecords(store.get(), Range(100, 200), 1)));
  file_system.writes_left = INT64_MAX;
  EXPECT_EQ(store->num_rows(), 100);
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 100), 2)));
  std::vector<LinkedFile> files;
  EXPECT_EQ(LinkStore(store.get(), folder / "x-", &files), Records(Range(0, 100), 2, kBytes));
}

TEST(TieredStore, ShowsEveryRowWhileItMoves) {
  for (const int64_t upper_rows : {5, 70, 150}) {
    const Cascade cascade = Open(upper_rows);
    CheckMovingRows(cascade.store.get(), 200);
    EXPECT_LE(cascade.upper->num_rows(), upper_rows);
  }
  const auto three = OpenThree(kBytes);
  CheckMovingRows(three.get(), 200);
}

}  // namespace keras_sparse::tiered_store_test
