#include "ops/core/stores/ssd/ssd_hash_store.h"

#include "tests/ops/core/support/check_moving_rows.h"
#include "tests/ops/core/support/faulty_file_system.h"
#include "tests/ops/core/support/small_store.h"

namespace keras_sparse::ssd_hash_store_test {

constexpr int64_t kStride = 12;  // beside the record

// Through the page cache of the system, and past it.
class SsdHashStoreTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!GetParam()) return;
    const TempFolder folder;
    std::unique_ptr<File> file;
    const Status made = FileSystem::Posix()->CreateDirectFile(folder / "file", &file);
    if (!made.ok()) GTEST_SKIP() << made.message();
  }

  // Small segments, so that a few rows fill some.
  static std::unique_ptr<RowStore> Open(const std::string& folder, int64_t record_bytes,
                                        int64_t segment_bytes = 4096,
                                        FileSystem* file_system = FileSystem::Posix(),
                                        int64_t capacity = INT64_MAX) {
    SsdHashOptions options = SsdOf(folder, record_bytes, segment_bytes, file_system);
    options.capacity = capacity;
    options.direct_io = GetParam();
    return OpenSsd(options);
  }
};

INSTANTIATE_TEST_SUITE_P(DirectIo, SsdHashStoreTest, testing::Bool(),
                         [](const auto& each) { return each.param ? "On" : "Off"; });

TEST_P(SsdHashStoreTest, KeepsTheContractOfAStore) {
  const TempFolder folder;
  int64_t number = 0;
  CheckStore(
      [&](int64_t record_bytes) { return Open(folder / std::to_string(number++), record_bytes); });
  // In buffers alone, as nothing fills a segment.
  CheckStore([&](int64_t record_bytes) {
    return Open(folder / std::to_string(number++), record_bytes, int64_t{64} << 20);
  });
  EXPECT_TRUE(folder.Contents().empty()) << "a store leaves nothing behind";
}

TEST_P(SsdHashStoreTest, ReadsRowsBackFromItsFiles) {
  const TempFolder folder;
  const auto store = Open(folder / "store", 500, int64_t{1} << 20);
  const std::vector<int64_t> keys = Range(0, 10000);
  ASSERT_TRUE(IsOk(PutRecords(store.get(), keys, 1)));
  EXPECT_GE(store->bytes(), 10000 * (500 + kStride));
  EXPECT_LE(store->bytes(), 10000 * (500 + kStride) + 10 * 64);
  ExpectStored(*store, RandomIds(5000, -100, 10100, 3), Records(keys, 1, 500));
}

TEST_P(SsdHashStoreTest, TakesAtMost24BytesOfMemoryARow) {
  const TempFolder folder;
  const auto store = Open(folder / "store", 4, int64_t{64} << 20);
  for (int64_t first = 0; first < 1000000; first += 100000) {
    ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(first, first + 100000), 1)));
  }
  EXPECT_LE(store->memory_bytes() - (1 << 20), 24 * store->num_rows());
}

TEST_P(SsdHashStoreTest, GivesTheRoomOfDeadEntriesBack) {
  const TempFolder folder;
  const auto store = Open(folder / "store", 100, 8192);
  const std::vector<int64_t> keys = Range(0, 1000);
  std::mt19937_64 random(7);
  StoredRecords expected = Records(keys, 0, 100);
  ASSERT_TRUE(IsOk(PutRecords(store.get(), keys, 0)));
  for (int64_t version = 1; version < 400; ++version) {
    const std::vector<int64_t> some = RandomIds(50, 0, 999, random());
    ASSERT_TRUE(IsOk(PutRecords(store.get(), some, version)));
    for (const auto& [key, record] : Records(some, version, 100)) expected[key] = record;
    // Twice what is alive, and the segments at either end.
    ASSERT_LE(store->bytes(), 2 * 1000 * (100 + kStride) + 3 * 8192) << version;
  }
  EXPECT_EQ(WalkStore(*store, 100), expected);
  EXPECT_GT(store->compacted_bytes(), 0);
  ASSERT_TRUE(IsOk(store->Erase(keys.data(), 1000)));
  EXPECT_LE(store->bytes(), 8192);
}

TEST_P(SsdHashStoreTest, RefusesWhatItsSizeDoesNotHoldAndKeepsTheRest) {
  const TempFolder folder;
  const int64_t capacity = 400 * (100 + kStride);
  const auto store = Open(folder / "store", 100, 2048, FileSystem::Posix(), capacity);
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 300), 1)));
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted,
                        "give it more in `storage_size` (1 GiB where that says none)",
                        PutRecords(store.get(), Range(300, 500), 1)));
  EXPECT_EQ(WalkStore(*store, 1000), Records(Range(0, 300), 1, 100));
  // Dead entries make room.
  for (int64_t version = 2; version < 20; ++version) {
    ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 50), version))) << version;
    ASSERT_LE(store->bytes(), capacity + 2048);
  }
}

TEST_P(SsdHashStoreTest, LosesNothingWhenTheDiskIsFull) {
  for (int64_t writes = 0; writes < 12; ++writes) {
    const TempFolder folder;
    FaultyFileSystem file_system;
    const auto store = Open(folder / "store", 3000, 40000, &file_system);
    StoredRecords expected = Records(Range(0, 20), 0, 3000);
    ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 20), 0)));
    file_system.writes_left = writes;
    file_system.creations_left = writes / 2;
    Status status;
    for (int64_t version = 1; status.ok() && version < 100; ++version) {
      const std::vector<int64_t> keys = RandomIds(10, 0, 30, static_cast<uint64_t>(version));
      status = PutRecords(store.get(), keys, version);
      // After a failure each key has its old record or its new one.
      StoredRecords renewed = Records(keys, version, 3000);
      for (const auto& [key, record] : WalkStore(*store, 100)) {
        const bool is_new = renewed.count(key) > 0 && renewed[key] == record;
        if (is_new) expected[key] = record;
      }
      ASSERT_EQ(WalkStore(*store, 100), expected);
      if (status.ok()) {
        for (const int64_t key : keys) ASSERT_EQ(expected[key], renewed[key]);
      }
    }
    EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, folder / "store", status));
    // There is room again: it goes on as if nothing had been.
    file_system.writes_left = INT64_MAX;
    file_system.creations_left = INT64_MAX;
    for (int64_t version = 100; version < 110; ++version) {
      ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(5, 25), version)));
    }
    for (const auto& [key, record] : Records(Range(5, 25), 109, 3000)) expected[key] = record;
    EXPECT_EQ(WalkStore(*store, 100), expected);
  }
}

TEST_P(SsdHashStoreTest, TellsWhatTheDiskHasChanged) {
  const TempFolder folder;
  const auto store = Open(folder / "store", 100, 100 * (100 + kStride) + 64);
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 350), 1)));
  const std::string path = folder / "store/000001.seg";
  const int64_t offset = 64 + 42 * (100 + kStride);  // key 142 is entry 42 of the second segment
  CheckDamagedEntry(store.get(), 142, path, offset);
  std::filesystem::resize_file(path, offset + 5);
  const int64_t key = 142;
  std::string record(100, '?');
  bool found = false;
  EXPECT_TRUE(
      FailsWith(StatusCode::kDataLoss,
                "'" + path + "' must have " + (GetParam() ? "4096" : "112") + " bytes from byte",
                store->Get(&key, 1, record.data(), &found)));
}

TEST_P(SsdHashStoreTest, LeavesADamagedEntryWhereItIs) {
  const TempFolder folder;
  const auto store = Open(folder / "store", 100, 100 * (100 + kStride) + 64);
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 250), 1)));
  FlipByte(folder / "store/000000.seg", 64 + 42 * (100 + kStride) + 60);
  // Kills most of the first segment, so that it is compacted.
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 40), 2)));
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(60, 100), 2)));
  StoredRecords expected = Records(Range(0, 100), 2, 100);
  for (const auto& [key, record] : Records(Range(40, 60), 1, 100)) expected[key] = record;
  for (int64_t key = 0; key < 100; ++key) {
    if (key != 42) ExpectStored(*store, {key}, expected);
  }
  const int64_t key = 42;
  std::string record(100, '?');
  bool found = false;
  EXPECT_TRUE(FailsWith(StatusCode::kDataLoss, "a wrong checksum",
                        store->Get(&key, 1, record.data(), &found)));
  // A new record takes its place.
  ASSERT_TRUE(IsOk(PutRecords(store.get(), {42}, 3)));
  ExpectStored(*store, {42}, Records({42}, 3, 100));
}

TEST_P(SsdHashStoreTest, TakesRecordsWhileOldOnesCannotBeRead) {
  const TempFolder folder;
  FaultyFileSystem file_system;
  const auto store = Open(folder / "store", 100, 4096, &file_system);
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 400), 1)));
  // Half of every segment dies, and none can be compacted.
  file_system.reads_left = 0;
  for (int64_t version = 2; version < 5; ++version) {
    for (int64_t key = 0; key < 400; key += 2) {
      ASSERT_TRUE(IsOk(PutRecords(store.get(), {key}, version)));
    }
  }
  file_system.reads_left = INT64_MAX;
  for (int64_t key = 0; key < 400; ++key) {
    ExpectStored(*store, {key}, Records({key}, key % 2 == 0 ? 4 : 1, 100));
  }
}

TEST_P(SsdHashStoreTest, FillsItsSizeWithRows) {
  const TempFolder folder;
  // All but two segments, which hold what is being written and what compaction copies.
  constexpr int64_t kSegment = 64 + 20 * (100 + kStride);
  const auto store = Open(folder / "store", 100, kSegment, FileSystem::Posix(), 50 * kSegment);
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 20 * 48), 1)));
  std::mt19937_64 random(1);
  for (int64_t version = 2; version < 300; ++version) {
    ASSERT_TRUE(IsOk(PutRecords(store.get(), RandomIds(15, 0, 20 * 48 - 1, random()), version)));
  }
  EXPECT_EQ(store->num_rows(), 20 * 48);
}

TEST_P(SsdHashStoreTest, ServesReadersWhileItIsWrittenAndCompacted) {
  const TempFolder folder;
  const auto store = Open(folder / "store", 64, 4096);
  CheckReadsOfReplacedRows(store.get(), 120);
  EXPECT_GT(store->compacted_bytes(), 0);
}

}  // namespace keras_sparse::ssd_hash_store_test
