#include "ops/core/stores/ssd/ssd_hash_store.h"
#include "ops/core/stores/write_back_buffer.h"
#include "tests/ops/core/support/check_store.h"
#include "tests/ops/core/support/gate.h"
#include "tests/ops/core/support/small_store.h"

namespace keras_sparse::stuck_store_test {

constexpr int64_t kRecordBytes = 100;
constexpr int64_t kMuch = int64_t{1} << 30;

TEST(StuckStore, TakesRowsAwayFromAStoreThatIsFull) {
  BackgroundPool pool(1);
  auto owned = std::make_unique<SmallStore>(kRecordBytes, 10);
  WriteBackBuffer store(std::move(owned), &pool, kMuch);
  ASSERT_TRUE(IsOk(PutRecords(&store, Range(0, 10), 1)));
  ASSERT_TRUE(IsOk(PutRecords(&store, Range(10, 14), 1)));
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "is full", store.Flush()));
  const std::vector<int64_t> erased = {2, 3, 4, 5, 12};  // 12 is stuck
  ASSERT_TRUE(IsOk(store.Erase(erased.data(), 5)));
  StoredRecords expected = Records(Range(0, 14), 1, kRecordBytes);
  for (const int64_t key : erased) expected.erase(key);
  EXPECT_EQ(WalkStore(store, 3), expected);
  EXPECT_EQ(store.num_rows(), 9);
  ASSERT_TRUE(IsOk(PutRecords(&store, {20}, 1)));
  ASSERT_TRUE(IsOk(store.Flush()));
  expected.merge(Records({20}, 1, kRecordBytes));
  EXPECT_EQ(WalkStore(store, 3), expected);
  EXPECT_EQ(store.num_rows(), 10);
}

TEST(StuckStore, NeedsNoRoomForStuckRowsThatAreErasedOrReplaced) {
  BackgroundPool pool(1);
  WriteBackBuffer store(std::make_unique<SmallStore>(kRecordBytes, 10), &pool, kMuch);
  ASSERT_TRUE(IsOk(PutRecords(&store, Range(0, 8), 1)));
  ASSERT_TRUE(IsOk(PutRecords(&store, Range(4, 15), 2)));  // seven more
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "is full", store.Flush()));
  const std::vector<int64_t> erased = Range(6, 14);
  ASSERT_TRUE(IsOk(store.Erase(erased.data(), 8)));
  ASSERT_TRUE(IsOk(PutRecords(&store, {6, 7, 8}, 3)));
  ASSERT_TRUE(IsOk(store.Flush()));
  StoredRecords expected = Records(Range(0, 4), 1, kRecordBytes);
  expected.merge(Records({4, 5, 14}, 2, kRecordBytes));
  expected.merge(Records({6, 7, 8}, 3, kRecordBytes));
  EXPECT_EQ(WalkStore(store, 3), expected);
  EXPECT_EQ(store.num_rows(), 10);
}

TEST(StuckStore, TriesNoChangeOfAStuckQueueWithDeadRows) {
  BackgroundPool pool(1);
  WriteBackBuffer store(std::make_unique<SmallStore>(kRecordBytes, 10), &pool, kMuch);
  ASSERT_TRUE(IsOk(PutRecords(&store, Range(0, 10), 1)));
  ASSERT_TRUE(IsOk(store.Flush()));
  {
    Gate gate(&pool);
    ASSERT_TRUE(IsOk(PutRecords(&store, Range(10, 14), 1)));
    ASSERT_TRUE(IsOk(PutRecords(&store, Range(20, 26), 1)));
  }
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "is full", store.Flush()));
  std::vector<int64_t> erased = Range(0, 4);
  for (const int64_t key : Range(20, 26)) erased.push_back(key);
  ASSERT_TRUE(IsOk(store.Erase(erased.data(), 10)));
  EXPECT_EQ(store.num_rows(), 10);  // which the tier holds
  EXPECT_TRUE(IsOk(PutRecords(&store, {5}, 2))) << "the first Put after the erasure";
  EXPECT_TRUE(IsOk(PutRecords(&store, {5}, 2))) << "the second one";
}

TEST(StuckStore, WritesNothingWhereNothingOfAStuckChangeIsLeft) {
  const TempFolder folder;
  BackgroundPool pool(1);
  SsdHashOptions options = SsdOf(folder / "store", kRecordBytes, 64 + 20 * 112);
  options.capacity = 64 + 40 * 112;  // the header of the second segment is not counted by Put
  auto ssd = OpenSsd(options);
  WriteBackBuffer store(std::move(ssd), &pool, kMuch);
  ASSERT_TRUE(IsOk(PutRecords(&store, Range(0, 20), 1)));
  ASSERT_TRUE(IsOk(PutRecords(&store, Range(20, 40), 1)));
  ASSERT_TRUE(IsOk(store.Flush()));
  ASSERT_TRUE(IsOk(PutRecords(&store, {100}, 1)));
  EXPECT_FALSE(store.Flush().ok());
  const int64_t erased = 100;
  ASSERT_TRUE(IsOk(store.Erase(&erased, 1)));
  // All rows that there are lie in the files.
  EXPECT_EQ(store.num_rows(), 40);
  std::vector<LinkedFile> files;
  EXPECT_TRUE(IsOk(store.LinkFiles(folder / "x-", &files)));
}

}  // namespace keras_sparse::stuck_store_test
