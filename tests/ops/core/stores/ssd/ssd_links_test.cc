// The segments of an SsdHashStore as files of a checkpoint.

#include "tests/ops/core/support/check_store.h"
#include "tests/ops/core/support/gate.h"
#include "tests/ops/core/support/small_store.h"

namespace keras_sparse::ssd_links_test {

Status Erase(RowStore* store, const std::vector<int64_t>& keys) {
  return store->Erase(keys.data(), static_cast<int64_t>(keys.size()));
}

int64_t NumFiles(const std::string& folder) {
  return std::distance(std::filesystem::directory_iterator(folder),
                       std::filesystem::directory_iterator());
}

std::vector<int64_t> AliveEntries(const LinkedFile& file) {
  std::vector<int64_t> entries;
  for (int64_t entry = 0; entry < file.num_entries; ++entry) {
    if (IsAlive(file, entry)) entries.push_back(entry);
  }
  return entries;
}

TEST(SsdLinks, TellEntriesThatAreRowsFromThoseThatWere) {
  const TempFolder folder;
  const auto store = OpenLinked(folder / "store");
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 250), 1)));
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(10, 20), 2)));
  ASSERT_TRUE(IsOk(Erase(store.get(), Range(195, 205))));
  std::vector<LinkedFile> files;
  ASSERT_TRUE(IsOk(store->LinkFiles(folder / "links-", &files)));
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(files[0].path, folder / "links-000000.seg");
  EXPECT_EQ(files[2].path, folder / "links-000002.seg");
  EXPECT_EQ(files[0].num_entries, 100);
  EXPECT_EQ(files[2].num_entries, 60) << "the newest one is linked as far as it goes";
  std::vector<int64_t> expected = Range(0, 10);
  for (int64_t entry = 20; entry < 100; ++entry) expected.push_back(entry);
  EXPECT_EQ(AliveEntries(files[0]), expected);
  EXPECT_EQ(AliveEntries(files[1]), Range(0, 95));
  EXPECT_EQ(AliveEntries(files[2]), Range(5, 60));
}

TEST(SsdLinks, LeaveOutFilesWithoutRows) {
  const TempFolder folder;
  const auto store = OpenLinked(folder / "store");
  std::vector<LinkedFile> files;
  ASSERT_TRUE(IsOk(store->LinkFiles(folder / "a-", &files)));
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 20), 1)));
  ASSERT_TRUE(IsOk(Erase(store.get(), Range(0, 20))));
  ASSERT_TRUE(IsOk(store->LinkFiles(folder / "b-", &files)));
  EXPECT_TRUE(files.empty());
  ASSERT_TRUE(IsOk(PutRecords(store.get(), {5}, 2)));
  EXPECT_EQ(LinkStore(store.get(), folder / "c-", &files), Records({5}, 2, kBytes));
  EXPECT_EQ(files.size(), 1u);
}

TEST(SsdLinks, StayAsTheyWereWhateverTheStoreDoes) {
  const TempFolder folder;
  auto store = OpenLinked(folder / "store");
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 1000), 1)));
  std::vector<LinkedFile> files;
  const StoredRecords first = LinkStore(store.get(), folder / "first-", &files);
  EXPECT_EQ(first, Records(Range(0, 1000), 1, kBytes));
  // Segments die, one after the other, and are compacted.
  for (int64_t version = 2; version < 40; ++version) {
    ASSERT_TRUE(IsOk(
        PutRecords(store.get(), RandomIds(100, 0, 999, static_cast<uint64_t>(version)), version)));
  }
  EXPECT_GT(store->compacted_bytes(), 0);
  EXPECT_EQ(ReadLinked(files, kBytes), first);
  std::vector<LinkedFile> later;
  const StoredRecords second = LinkStore(store.get(), folder / "second-", &later);
  EXPECT_EQ(second, WalkStore(*store, 1000));
  ASSERT_TRUE(IsOk(store->Clear()));
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 1000), 9)));
  EXPECT_EQ(ReadLinked(later, kBytes), second);
  store = nullptr;
  EXPECT_EQ(ReadLinked(files, kBytes), first);
  EXPECT_EQ(ReadLinked(later, kBytes), second);
  EXPECT_EQ(folder.Contents().size(), files.size() + later.size());
}

TEST(SsdLinks, LetTheStoreWriteOnInANewSegment) {
  const TempFolder folder;
  const auto store = OpenLinked(folder / "store");
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 60), 1)));
  std::vector<LinkedFile> files;
  ASSERT_TRUE(IsOk(store->LinkFiles(folder / "links-", &files)));
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(60, 70), 1)));
  EXPECT_EQ(std::filesystem::file_size(files[0].path), static_cast<size_t>(64 + 60 * kStride));
  EXPECT_EQ(NumFiles(folder / "store"), 2);
  EXPECT_EQ(WalkStore(*store, 100), Records(Range(0, 70), 1, kBytes));
}

// Links after every few records, over and over, with records that are new or replace others.
void CheckManyLinks(BackgroundPool* compaction_pool, bool adds_rows) {
  const TempFolder folder;
  const auto store = OpenLinked(folder / "store", FileSystem::Posix(), compaction_pool);
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 1000), 0)));
  StoredRecords expected = Records(Range(0, 1000), 0, kBytes);
  std::mt19937_64 random(3);
  for (int64_t round = 1; round <= 300; ++round) {
    const std::vector<int64_t> keys =
        adds_rows ? Range(1000 + 3 * round, 1003 + 3 * round) : RandomIds(3, 0, 999, random());
    ASSERT_TRUE(IsOk(PutRecords(store.get(), keys, round)));
    for (const auto& [key, record] : Records(keys, round, kBytes)) expected[key] = record;
    if (compaction_pool != nullptr) const Gate compacted(compaction_pool);
    const TempFolder links;
    std::vector<LinkedFile> files;
    ASSERT_TRUE(IsOk(store->LinkFiles(links / "x-", &files)));
    // All but the newest one are half full of rows.
    ASSERT_LE(NumFiles(folder / "store"), 2 * store->num_rows() / kEntries + 2) << round;
    if (round % 20 == 0) {
      ASSERT_EQ(ReadLinked(files, kBytes), expected);
    }
  }
  EXPECT_EQ(WalkStore(*store, 100), expected);
}

TEST(SsdLinks, LeaveFewSegmentsHoweverManyThereAre) {
  BackgroundPool pool(1);
  for (const bool adds_rows : {false, true}) {
    CheckManyLinks(nullptr, adds_rows);
    CheckManyLinks(&pool, adds_rows);
  }
}

TEST(SsdLinks, LetTheStoreFillItsSize) {
  const TempFolder folder;
  constexpr int64_t kRows = kEntries * 47;
  const auto store = OpenLinked(folder / "store", FileSystem::Posix(), nullptr, 50 * kSegmentBytes);
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, kRows), 0)));
  std::mt19937_64 random(1);
  for (int64_t version = 1; version < 200; ++version) {
    const std::vector<int64_t> keys = RandomIds(15, 0, kRows - 1, random());
    ASSERT_TRUE(IsOk(PutRecords(store.get(), keys, version))) << version;
    ASSERT_LE(store->bytes(), 50 * kSegmentBytes);
    const TempFolder links;
    std::vector<LinkedFile> files;
    ASSERT_TRUE(IsOk(store->LinkFiles(links / "x-", &files)));
  }
  EXPECT_EQ(store->num_rows(), kRows);
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "give it more in `storage_size`",
                        PutRecords(store.get(), Range(kRows, kRows + 4 * kEntries), 1)));
  EXPECT_EQ(store->num_rows(), kRows);
}

TEST(SsdLinks, ShowEveryRowOnceWhileItIsWrittenReadAndCompacted) {
  const TempFolder folder;
  constexpr int64_t kKeys = 300;
  constexpr int64_t kVersions = 60;
  BackgroundPool pool(1);
  const auto store = OpenLinked(folder / "store", FileSystem::Posix(), &pool);
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, kKeys), 0)));
  // A link may have any version from the last one finished to the last one begun.
  std::atomic<int64_t> begun{0};
  std::atomic<int64_t> finished{0};
  std::thread linker([&] {
    for (int64_t i = 0; finished < kVersions; ++i) {
      const TempFolder links;
      const int64_t least = finished;
      std::vector<LinkedFile> files;
      ASSERT_TRUE(IsOk(store->LinkFiles(links / "x-", &files)));
      const int64_t greatest = begun;
      const StoredRecords linked = ReadLinked(files, kBytes);
      ASSERT_EQ(linked.size(), static_cast<size_t>(kKeys));
      for (const auto& [key, record] : linked) {
        bool is_one = false;
        for (int64_t v = least; v <= greatest && !is_one; ++v) {
          is_one = record == MakeRecord(key, v, kBytes);
        }
        ASSERT_TRUE(is_one) << "key " << key;
      }
    }
  });
  std::thread reader([&] {
    std::mt19937_64 random(1);
    while (finished < kVersions) {
      const std::vector<int64_t> keys = RandomIds(20, 0, kKeys - 1, random());
      std::string records(20 * kBytes, '?');
      bool found[20];
      ASSERT_TRUE(IsOk(store->Get(keys.data(), 20, records.data(), found)));
      ASSERT_TRUE(std::all_of(found, found + 20, [](bool is_there) { return is_there; }));
    }
  });
  for (int64_t version = 1; version <= kVersions; ++version) {
    begun = version;
    ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, kKeys), version)));
    finished = version;
  }
  linker.join();
  reader.join();
  EXPECT_EQ(WalkStore(*store, 100), Records(Range(0, kKeys), kVersions, kBytes));
}

}  // namespace keras_sparse::ssd_links_test
