// What Compact leaves of rows that have gone in the files of an SsdHashStore: nothing.
#include <future>

#include "tests/ops/core/support/check_compact.h"
#include "tests/ops/core/support/faulty_file_system.h"
#include "tests/ops/core/support/small_store.h"

namespace keras_sparse::ssd_compact_test {

TEST(SsdCompact, LeavesNoByteOfWhatHasGone) {
  BackgroundPool pool(1);
  for (BackgroundPool* const compaction_pool : {static_cast<BackgroundPool*>(nullptr), &pool}) {
    const TempFolder folder;
    const TempFolder links;
    CheckCompact(OpenLinked(folder / "store", FileSystem::Posix(), compaction_pool).get(), folder,
                 links);
  }
}

TEST(SsdCompact, LeavesNoByteOfWhatHasGonePastThePageCache) {
  const TempFolder folder;
  const TempFolder links;
  SsdHashOptions options = SsdOf(folder / "store", kBytes, kSegmentBytes);
  options.direct_io = true;
  std::unique_ptr<RowStore> store;
  const Status opened = SsdHashStore::Open(options, &store);
  if (!opened.ok()) GTEST_SKIP() << opened.message();
  CheckCompact(store.get(), folder, links);
}

TEST(SsdCompact, TouchesNoSegmentWhoseRowsAreAllThere) {
  const TempFolder folder;
  const auto store = OpenLinked(folder / "store");
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 950), 1)));
  const auto files = folder.Contents();
  ASSERT_TRUE(IsOk(store->Compact()));
  EXPECT_EQ(folder.Contents(), files);
  EXPECT_EQ(store->compacted_bytes(), 0);
  const std::vector<int64_t> keys = {205, 206};
  ASSERT_TRUE(IsOk(store->Erase(keys.data(), 2)));
  ASSERT_TRUE(IsOk(store->Compact()));
  EXPECT_EQ(store->compacted_bytes(), 98 * kStride);
  EXPECT_EQ(folder.Contents().count("store/000002.seg"), 0u);
}

// Fails calls of one kind after some more of them, in a Compact, and then in none.
void CheckFault(std::atomic<int64_t> FaultyFileSystem::* calls_left, StatusCode code) {
  int64_t num_failed = 0;
  for (const int64_t left : {0, 1, 2, 5, 11, 1000}) {
    const TempFolder folder;
    FaultyFileSystem file_system;
    const auto store = OpenLinked(folder / "store", &file_system);
    TrackedStore tracked(store.get());
    tracked.Put(Range(0, 1050), 1);
    std::vector<int64_t> some = RandomIds(300, 0, 1049, 3);
    some.push_back(1049);  // of the newest segment
    tracked.Erase(some);
    tracked.Put(Range(300, 330), 2);
    file_system.*calls_left = left;
    const Status status = store->Compact();
    file_system.*calls_left = INT64_MAX;
    if (!status.ok()) {
      ++num_failed;
      EXPECT_TRUE(FailsWith(code, folder / "store", status)) << left;
    } else {
      EXPECT_EQ(tracked.gone().CountIn(folder), 0) << left;
    }
    EXPECT_EQ(WalkStore(*store, 100), tracked.held()) << left;
    ASSERT_TRUE(IsOk(store->Compact()));
    EXPECT_EQ(tracked.gone().CountIn(folder), 0) << left;
    EXPECT_EQ(WalkStore(*store, 100), tracked.held()) << left;
  }
  EXPECT_GT(num_failed, 0);
}

TEST(SsdCompact, LosesNothingWhenTheDiskIsFull) {
  CheckFault(&FaultyFileSystem::writes_left, StatusCode::kResourceExhausted);
  CheckFault(&FaultyFileSystem::creations_left, StatusCode::kResourceExhausted);
}

TEST(SsdCompact, TellsWhatCannotBeRead) {
  CheckFault(&FaultyFileSystem::reads_left, StatusCode::kDataLoss);
}

TEST(SsdCompact, TellsThatAFileCannotBeRemoved) {
  CheckFault(&FaultyFileSystem::removals_left, StatusCode::kFailedPrecondition);
  CheckFault(&FaultyFileSystem::lists_left, StatusCode::kDataLoss);
}

TEST(SsdCompact, TellsOfADamagedRowAndCompactsTheOtherSegments) {
  const TempFolder folder;
  const auto store = OpenLinked(folder / "store");
  TrackedStore tracked(store.get());
  tracked.Put(Range(0, 500), 1);
  tracked.Erase({110, 111, 310, 410});
  FlipByte(folder / "store/000001.seg", 64 + 50 * kStride + 40);
  EXPECT_TRUE(FailsWith(StatusCode::kDataLoss, folder / "store/000001.seg", store->Compact()));
  EXPECT_EQ(folder.Contents().count("store/000003.seg"), 0u);
  EXPECT_EQ(folder.Contents().count("store/000004.seg"), 0u);
  EXPECT_EQ(store->num_rows(), 496);
  tracked.Erase({150});  // what is damaged may go
  ASSERT_TRUE(IsOk(store->Compact()));
  EXPECT_EQ(tracked.gone().CountIn(folder), 0);
  EXPECT_EQ(WalkStore(*store, 100), tracked.held());
}

TEST(SsdCompact, WaitsForNoReader) {
  const TempFolder folder;
  FaultyFileSystem file_system;
  const auto store = OpenLinked(folder / "store", &file_system);
  TrackedStore tracked(store.get());
  tracked.Put(Range(0, 500), 1);
  std::promise<void> held;
  std::promise<void> released;
  std::atomic<bool> is_first{true};
  file_system.before_read = [&] {
    if (!is_first.exchange(false)) return;
    held.set_value();
    released.get_future().wait();
  };
  const std::string expected = MakeRecord(7, 1, kBytes);
  std::string record(kBytes, '?');
  std::thread reader([&] {
    const int64_t key = 7;
    bool found = false;
    EXPECT_TRUE(IsOk(store->Get(&key, 1, record.data(), &found)));
  });
  held.get_future().wait();
  tracked.Erase(Range(0, 250));  // with a whole segment that is read, and a part of another
  ASSERT_TRUE(IsOk(store->Compact()));
  EXPECT_EQ(tracked.gone().CountIn(folder), 0);
  released.set_value();
  reader.join();
  EXPECT_EQ(record, expected);
  EXPECT_EQ(WalkStore(*store, 100), tracked.held());
}

TEST(SsdCompact, RunsBesideChangesAndLinks) {
  const TempFolder folder;
  const TempFolder links;
  BackgroundPool pool(1);
  const auto store = OpenLinked(folder / "store", FileSystem::Posix(), &pool);
  TrackedStore tracked(store.get());
  tracked.Put(Range(-150, 150), 1000);
  std::atomic<bool> is_done{false};
  std::thread compacting([&] {
    while (!is_done) EXPECT_TRUE(IsOk(store->Compact()));
  });
  std::thread linking([&] {
    for (int64_t i = 0; !is_done; ++i) {
      std::vector<LinkedFile> files;
      ASSERT_TRUE(IsOk(store->LinkFiles(links / (std::to_string(i) + "-"), &files)));
      (void)ReadLinked(files, kBytes);
    }
  });
  for (int64_t version = 0; version < 150; ++version) tracked.ChangeSome(version);
  is_done = true;
  compacting.join();
  linking.join();
  EXPECT_EQ(WalkStore(*store, 100), tracked.held());
  ASSERT_TRUE(IsOk(store->Compact()));
  EXPECT_EQ(tracked.gone().CountIn(folder), 0);
}

}  // namespace keras_sparse::ssd_compact_test
