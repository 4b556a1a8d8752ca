#include "ops/core/stores/leveldb/leveldb_store.h"

#include <sys/mount.h>

#include "tests/ops/core/support/check_compact.h"
#include "tests/ops/core/support/check_tiered_table.h"

namespace keras_sparse::leveldb_store_test {

std::unique_ptr<RowStore> Open(const std::string& folder, int64_t record_bytes,
                               int64_t capacity = INT64_MAX) {
  StoreOptions options;
  options.kind = "leveldb";
  options.folder = folder;
  options.record_bytes = record_bytes;
  options.capacity = capacity;
  std::unique_ptr<RowStore> store;
  EXPECT_TRUE(IsOk(RowStore::Open(options, &store)));
  return store;
}

TEST(LevelDbStore, KeepsTheContractOfAStore) {
  const TempFolder folder;
  int64_t number = 0;
  CheckStore(
      [&](int64_t record_bytes) { return Open(folder / std::to_string(number++), record_bytes); });
  EXPECT_TRUE(folder.Contents().empty()) << "a store leaves nothing behind";
}

TEST(LevelDbStore, ReadsRowsBackFromItsFiles) {
  const TempFolder folder;
  const auto store = Open(folder / "store", 1000);
  // Twice what LevelDB holds in memory.
  for (int64_t first = 0; first < 70000; first += 10000) {
    ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(first, first + 10000), 1)));
  }
  EXPECT_GE(store->bytes(), 70000 * 1000);
  EXPECT_EQ(store->num_rows(), 70000);
  const std::vector<int64_t> keys = RandomIds(3000, -100, 70100, 3);
  std::vector<int64_t> held;
  for (const int64_t key : keys) {
    if (key >= 0 && key < 70000) held.push_back(key);
  }
  ExpectStored(*store, keys, Records(held, 1, 1000));
}

TEST(LevelDbStore, RefusesWhatItsSizeDoesNotHoldAndKeepsTheRest) {
  const TempFolder folder;
  const auto store = Open(folder / "store", 1000, 8 << 20);
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 3000), 1)));
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "give it more in `storage_size`",
                        PutRecords(store.get(), Range(3000, 9000), 1)));
  EXPECT_EQ(WalkStore(*store, 1000), Records(Range(0, 3000), 1, 1000));
  // Replaced records make room, once LevelDB has compacted.
  for (int64_t version = 2; version < 12; ++version) {
    ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 3000), version))) << version;
  }
  EXPECT_EQ(WalkStore(*store, 1000), Records(Range(0, 3000), 11, 1000));
}

std::vector<std::string> FilesOf(const TempFolder& folder, const std::string& ending) {
  std::vector<std::string> paths;
  for (const std::string& name : folder.Contents()) {
    if (name.find(ending) != std::string::npos) paths.push_back(folder / name);
  }
  return paths;
}

// A store of 40,000 rows, most of which are in a file by now, that is damaged so that it must be
// read to be missed. What Get says then must contain `words`.
void CheckDamage(void (*damage)(const std::string& path), const std::string& words) {
  const TempFolder folder;
  const auto store = Open(folder / "store", 1000);
  for (int64_t first = 0; first < 40000; first += 10000) {
    ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(first, first + 10000), 1)));
  }
  // LevelDB writes its file in the background, and removes the log of these rows when it is done:
  // another log has those that came after. It has nothing to do with one file, and leaves it alone.
  while (FilesOf(folder, ".log").size() > 1) std::this_thread::yield();
  const std::vector<std::string> files = FilesOf(folder, ".ldb");
  ASSERT_EQ(files.size(), 1u);
  damage(files[0]);
  const std::vector<int64_t> keys = Range(0, 40000);
  std::vector<char> records(40000 * 1000);
  const auto found = std::make_unique<bool[]>(40000);
  const Status status = store->Get(keys.data(), 40000, records.data(), found.get());
  EXPECT_TRUE(FailsWith(StatusCode::kDataLoss, folder / "store", status));
  EXPECT_TRUE(FailsWith(StatusCode::kDataLoss, words, status));
  ASSERT_TRUE(IsOk(store->Erase(keys.data(), 1)));
  EXPECT_TRUE(FailsWith(StatusCode::kDataLoss, words, store->Compact()));
  EXPECT_EQ(store->num_rows(), 39999);
}

TEST(LevelDbStore, TellsWhatTheDiskHasChanged) {
  CheckDamage(
      [](const std::string& path) {
        for (int64_t byte = 500; byte < 1 << 20; byte += 2000) FlipByte(path, byte);
      },
      "block checksum mismatch");
}

TEST(LevelDbStore, TellsThatAFileWasCutOff) {
  CheckDamage(
      [](const std::string& path) {
        std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
      },
      ".ldb: it was cut off");
}

TEST(LevelDbStore, NamesAFolderThatIsTaken) {
  const TempFolder folder;
  const auto store = Open(folder / "store", 8);
  StoreOptions options;
  options.kind = "leveldb";
  options.folder = folder / "store";
  options.record_bytes = 8;
  std::unique_ptr<RowStore> second;
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, folder / "store",
                        RowStore::Open(options, &second)));
}

TEST(LevelDbStore, GoesOnWhenAFullDiskHasRoomAgain) {
  const TempFolder folder;
  // Of two files of 32 MB, one is written in the background, and finds no room.
  if (::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=40m") != 0) {
    GTEST_SKIP() << "this user may not mount a small disk";
  }
  auto store = Open(folder / "store", 4000);
  Status status;
  int64_t end = 0;
  for (; end < 20000 && status.ok(); end += status.ok() ? 500 : 0) {
    status = PutRecords(store.get(), Range(end, end + 500), 1);
  }
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "for a new database", status));
  ASSERT_TRUE(IsOk(store->Erase(Range(0, 100).data(), 100)));
  const StoredRecords expected = Records(Range(100, end), 1, 4000);
  EXPECT_EQ(WalkStore(*store, 1000), expected);
  ASSERT_EQ(::mount("tmpfs", folder.path().c_str(), "tmpfs", MS_REMOUNT, "size=400m"), 0);
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(end, end + 500), 1)));
  EXPECT_EQ(WalkStore(*store, 1000), Records(Range(100, end + 500), 1, 4000));
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, end), 2)));
  store.reset();
  EXPECT_TRUE(folder.Contents().empty());
  EXPECT_EQ(::umount(folder.path().c_str()), 0);
}

TEST(LevelDbStore, CompactsToNoByteOfWhatHasGone) {
  const TempFolder folder;
  const TempFolder links;
  CheckCompact(Open(folder / "store", 100).get(), folder, links);
  EXPECT_TRUE(folder.Contents().empty());
}

TEST(LevelDbStore, CompactsItsFilesAndTellsOfThoseThatStay) {
  const TempFolder folder;
  const auto store = Open(folder / "store", 1000);
  TrackedStore tracked(store.get());
  // One file is written in the background, and a log has what came after.
  for (int64_t first = 0; first < 36000; first += 6000) {
    ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(first, first + 6000), 1)));
  }
  tracked.Put(Range(1000, 1020), 2);
  tracked.Erase(Range(1000, 1010));
  tracked.Put(Range(1010, 1015), 3);
  while (FilesOf(folder, ".ldb").empty()) std::this_thread::yield();
  EXPECT_GT(tracked.gone().CountIn(folder), 0);
  const std::string stays = folder / "store/123456.ldb/stays";
  std::filesystem::create_directories(stays);
  for (int64_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "store/123456.ldb", store->Compact()));
  }
  std::filesystem::remove_all(folder / "store/123456.ldb");
  ASSERT_TRUE(IsOk(store->Compact()));
  EXPECT_EQ(tracked.gone().CountIn(folder), 0);
  EXPECT_EQ(store->num_rows(), 35990);
  ExpectStored(*store, {999, 1000, 1009, 1011, 1019, 1020, 35999},
               {{999, MakeRecord(999, 1, 1000)},
                {1011, MakeRecord(1011, 3, 1000)},
                {1019, MakeRecord(1019, 2, 1000)},
                {1020, MakeRecord(1020, 1, 1000)},
                {35999, MakeRecord(35999, 1, 1000)}});
  const auto files = folder.Contents();
  ASSERT_TRUE(IsOk(store->Compact()));
  EXPECT_EQ(folder.Contents(), files) << "there is nothing to do";
}

TEST(LevelDbStore, CompactsOnlyWhereTheDiskHasRoomBeside) {
  const TempFolder folder;
  if (::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=40m") != 0) {
    GTEST_SKIP() << "this user may not mount a small disk";
  }
  auto store = Open(folder / "store", 1000);
  TrackedStore tracked(store.get());
  tracked.Put(Range(0, 100), 1);
  tracked.Erase(Range(0, 50));
  const auto files = folder.Contents();
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "bytes for a new database beside '",
                        store->Compact()));
  EXPECT_EQ(folder.Contents(), files);
  EXPECT_EQ(WalkStore(*store, 100), tracked.held());
  ASSERT_EQ(::mount("tmpfs", folder.path().c_str(), "tmpfs", MS_REMOUNT, "size=400m"), 0);
  ASSERT_TRUE(IsOk(store->Compact()));
  EXPECT_EQ(tracked.gone().CountIn(folder), 0);
  EXPECT_EQ(WalkStore(*store, 100), tracked.held());
  store.reset();
  EXPECT_EQ(::umount(folder.path().c_str()), 0);
}

TEST(LevelDbStore, IsATierBelowMemory) {
  CheckTieredTable({{"leveldb"}, {40000, int64_t{1} << 30}, "", "LRU"}, AdagradRule(0.1));
}

}  // namespace keras_sparse::leveldb_store_test
