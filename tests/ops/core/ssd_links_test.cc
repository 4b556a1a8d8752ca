// The segments of an SsdHashStore as files of a checkpoint.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ops/core/ssd_hash_store.h"
#include "tests/ops/core/check_store.h"
#include "tests/ops/core/faulty_env.h"
#include "tests/ops/core/gate.h"
#include "tests/ops/core/temp_folder.h"

namespace keras_sparse {
namespace {

constexpr int64_t kBytes = 100;
constexpr int64_t kStride = 12 + kBytes;
constexpr int64_t kEntries = 100;  // of a segment
constexpr int64_t kSegmentBytes = 64 + kEntries * kStride;

std::unique_ptr<RowStore> Open(const std::string& folder, Env* env = Env::Posix(),
                               BackgroundPool* compaction_pool = nullptr,
                               int64_t capacity = INT64_MAX) {
  SsdHashOptions options;
  options.env = env;
  options.folder = folder;
  options.record_bytes = kBytes;
  options.segment_bytes = kSegmentBytes;
  options.compaction_pool = compaction_pool;
  options.capacity = capacity;
  std::unique_ptr<RowStore> store;
  EXPECT_TRUE(IsOk(SsdHashStore::Open(options, &store)));
  return store;
}

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
  const auto store = Open(folder / "store");
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
  const auto store = Open(folder / "store");
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
  auto store = Open(folder / "store");
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
  const auto store = Open(folder / "store");
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
  const auto store = Open(folder / "store", Env::Posix(), compaction_pool);
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
  const auto store = Open(folder / "store", Env::Posix(), nullptr, 50 * kSegmentBytes);
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

TEST(SsdLinks, FailWhereThePathIsTakenAndLeaveThatFile) {
  const TempFolder folder;
  const auto store = Open(folder / "store");
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 20), 1)));
  std::vector<LinkedFile> files;
  const StoredRecords linked = LinkStore(store.get(), folder / "x-", &files);
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 300), 2)));
  std::vector<LinkedFile> others;
  EXPECT_TRUE(IsOk(store->LinkFiles(folder / "x-", &others))) << "that segment has gone";
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "to '" + (folder / "x-") + "0",
                        store->LinkFiles(folder / "x-", &others)));
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "could not link",
                        store->LinkFiles(folder / "none/x-", &others)));
  EXPECT_EQ(ReadLinked(files, kBytes), linked);
  EXPECT_EQ(WalkStore(*store, 100), Records(Range(0, 300), 2, kBytes));
}

TEST(SsdLinks, FailOnAnotherFileSystem) {
  const TempFolder folder;
  struct stat here;
  struct stat there;
  if (::stat("/dev/shm", &there) != 0 || ::stat(folder.path().c_str(), &here) != 0 ||
      here.st_dev == there.st_dev) {
    GTEST_SKIP() << "there is one file system";
  }
  const auto store = Open(folder / "store");
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 20), 1)));
  std::vector<LinkedFile> files;
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition,
                        "could not link '" + (folder / "store/000000.seg") + "' to '/dev/shm/",
                        store->LinkFiles("/dev/shm/keras_sparse-test-", &files)));
  EXPECT_EQ(WalkStore(*store, 100), Records(Range(0, 20), 1, kBytes));
}

TEST(SsdLinks, FailWithTheDiskAndLeaveTheStoreAsItWas) {
  const TempFolder folder;
  FaultyEnv env;
  const auto store = Open(folder / "store", &env);
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 250), 1)));
  const StoredRecords expected = Records(Range(0, 250), 1, kBytes);
  std::vector<LinkedFile> files;
  env.writes_left = 0;  // the newest segment cannot be written out
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "could not write",
                        store->LinkFiles(folder / "a-", &files)));
  EXPECT_EQ(folder.Contents().count("a-000000.seg"), 0u);
  EXPECT_EQ(WalkStore(*store, 100), expected);
  env.writes_left = INT64_MAX;
  env.links_left = 1;
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "could not link",
                        store->LinkFiles(folder / "b-", &files)));
  EXPECT_EQ(WalkStore(*store, 100), expected);
  env.links_left = INT64_MAX;
  env.writes_left = 0;  // what is sealed needs no writing
  files.clear();
  EXPECT_EQ(LinkStore(store.get(), folder / "c-", &files), expected);
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "could not write",
                        PutRecords(store.get(), Range(0, 10), 2)));
  env.writes_left = INT64_MAX;
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(250, 260), 1)));
  files.clear();
  EXPECT_EQ(LinkStore(store.get(), folder / "d-", &files), Records(Range(0, 260), 1, kBytes));
}

TEST(SsdLinks, FailWhereARowCouldNotBeReadUntilItIsReplaced) {
  const TempFolder folder;
  const auto store = Open(folder / "store");
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 250), 1)));
  const int64_t byte = 64 + 42 * kStride + 60;
  FlipByte(folder / "store/000000.seg", byte);
  // Nobody has met the damage so far, and links are made without reading.
  std::vector<LinkedFile> files;
  ASSERT_TRUE(IsOk(store->LinkFiles(folder / "a-", &files)));
  const std::vector<int64_t> keys = Range(40, 45);
  std::string records(5 * kBytes, '?');
  bool found[5];
  const auto get = [&] { return store->Get(keys.data(), 5, records.data(), found); };
  const auto link = [&](const std::string& prefix) {
    files.clear();
    return store->LinkFiles(folder / prefix, &files);
  };
  EXPECT_EQ(get().code(), StatusCode::kDataLoss);
  EXPECT_TRUE(FailsWith(StatusCode::kDataLoss,
                        "rows must be read to be saved; go on from the last checkpoint. Received: "
                        "the entry at byte " +
                            std::to_string(byte - 60) + " of '" + (folder / "store/000000.seg"),
                        link("b-")));
  // What was a failure of the moment is none.
  FlipByte(folder / "store/000000.seg", byte);
  EXPECT_TRUE(IsOk(link("c-")));
  FlipByte(folder / "store/000000.seg", byte);
  EXPECT_EQ(link("d-").code(), StatusCode::kDataLoss);
  ASSERT_TRUE(IsOk(PutRecords(store.get(), {42}, 2)));
  EXPECT_TRUE(IsOk(link("e-")));
  EXPECT_TRUE(IsOk(get()));
}

TEST(SsdLinks, ShowEveryRowOnceWhileItIsWrittenReadAndCompacted) {
  const TempFolder folder;
  constexpr int64_t kKeys = 300;
  constexpr int64_t kVersions = 60;
  BackgroundPool pool(1);
  const auto store = Open(folder / "store", Env::Posix(), &pool);
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

}  // namespace
}  // namespace keras_sparse
