#include "ops/core/stores/pmem/pmem_store.h"

#include <sys/mount.h>

#include "tests/ops/core/support/check_moving_rows.h"
#include "tests/ops/core/support/check_tiered_table.h"
#include "tests/ops/core/support/faulty_file_system.h"

namespace keras_sparse::pmem_store_test {

constexpr int64_t kStride = 100 + 12;
constexpr int64_t kExtent = 64 + 20 * kStride;  // 20 entries of 100 bytes

PmemOptions Pmem(const std::string& folder, int64_t record_bytes = 100) {
  PmemOptions options;
  options.file_system = FileSystem::Posix();
  options.folder = folder;
  options.record_bytes = record_bytes;
  options.extent_bytes = kExtent;
  return options;
}

std::unique_ptr<RowStore> Open(const PmemOptions& options) {
  std::unique_ptr<RowStore> store;
  EXPECT_TRUE(IsOk(PmemStore::Open(options, &store)));
  return store;
}

TEST(PmemStore, KeepsTheContractOfAStore) {
  const TempFolder folder;
  int64_t number = 0;
  CheckStore([&](int64_t record_bytes) {
    PmemOptions options = Pmem(folder / std::to_string(number++), record_bytes);
    options.extent_bytes = 64 + 100 * (record_bytes + 12);
    return Open(options);
  });
  // As a table opens it, and with the order of its rows.
  CheckStore([&](int64_t record_bytes) {
    StoreOptions options{"pmem", folder / std::to_string(number++), record_bytes, 64 << 20, true};
    std::unique_ptr<RowStore> store;
    EXPECT_TRUE(IsOk(RowStore::Open(options, &store)));
    return store;
  });
  EXPECT_TRUE(folder.Contents().empty()) << "a store leaves nothing behind";
}

TEST(PmemStore, TakesAtMost24BytesOfMemoryARow) {
  const TempFolder folder;
  PmemOptions options = Pmem(folder / "store", 4);
  options.extent_bytes = 16 << 20;
  const auto store = Open(options);
  for (int64_t first = 0; first < 1000000; first += 100000) {
    ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(first, first + 100000), 1)));
  }
  EXPECT_LE(store->memory_bytes(), 24 * store->num_rows());
}

TEST(PmemStore, GrowsByExtentsAndReusesWhatIsErased) {
  const TempFolder folder;
  const auto store = Open(Pmem(folder / "store"));
  EXPECT_EQ(store->bytes(), 0);
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 20), 1)));
  EXPECT_EQ(store->bytes(), kExtent);
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(20, 90), 1)));
  EXPECT_EQ(store->bytes(), 5 * kExtent);
  EXPECT_EQ(folder.Contents().count("store/000004.pmem"), 1u);
  // 10 free entries, and those of the rows that go.
  const std::vector<int64_t> some = Range(30, 60);
  for (int64_t round = 0; round < 50; ++round) {
    ASSERT_TRUE(IsOk(store->Erase(some.data(), 30)));
    ASSERT_TRUE(IsOk(PutRecords(store.get(), some, round)));
    ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 10), round)));
  }
  EXPECT_EQ(store->bytes(), 5 * kExtent);
  EXPECT_EQ(store->num_rows(), 90);
  ASSERT_TRUE(IsOk(store->Clear()));
  EXPECT_EQ(store->bytes(), 0);
  EXPECT_EQ(folder.Contents().size(), 1u) << "the store's folder alone";
}

TEST(PmemStore, RefusesWhatItsSizeDoesNotHoldAndKeepsTheRest) {
  const TempFolder folder;
  PmemOptions options = Pmem(folder / "store");
  // 3 whole extents and one of 4 entries; one entry is for records that replace others.
  options.capacity = 3 * kExtent + 64 + 5 * kStride - 1;
  const auto store = Open(options);
  EXPECT_EQ(store->Room(), 63);
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 60), 1)));
  EXPECT_EQ(store->Room(), 3);
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "the size of the pmem tier must hold",
                        PutRecords(store.get(), Range(50, 64), 2)));
  EXPECT_EQ(WalkStore(*store, 7), Records(Range(0, 60), 1, 100));
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(60, 63), 1)));
  EXPECT_EQ(store->Room(), 0);
  // All can still be replaced, also in one call, with repeats.
  std::vector<int64_t> twice = Range(0, 63);
  for (int64_t key = 62; key >= 0; --key) twice.push_back(key);
  for (int64_t version = 2; version < 6; ++version) {
    ASSERT_TRUE(IsOk(PutRecords(store.get(), twice, version)));
    ASSERT_EQ(WalkStore(*store, 1000), Records(Range(0, 63), version, 100));
  }
  EXPECT_LE(store->bytes(), options.capacity);
}

TEST(PmemStore, HoldsNoRowWhereItsSizeIsLessThanOne) {
  const TempFolder folder;
  for (const int64_t capacity : {int64_t{1}, 64 + kStride - 1, 64 + kStride}) {
    PmemOptions options = Pmem(folder / "store");
    options.capacity = capacity;
    const auto store = Open(options);
    EXPECT_EQ(store->Room(), 0);
    EXPECT_EQ(PutRecords(store.get(), {1}, 1).code(), StatusCode::kResourceExhausted);
    EXPECT_EQ(store->num_rows(), 0);
    EXPECT_EQ(store->bytes(), 0);
  }
}

TEST(PmemStore, KnowsTheOrderOfItsRows) {
  const TempFolder folder;
  PmemOptions options = Pmem(folder / "store");
  options.keeps_order = true;
  const auto store = Open(options);
  std::vector<int64_t> order;
  std::mt19937_64 random(3);
  for (int64_t version = 0; version < 200; ++version) {
    const auto key = static_cast<int64_t>(random() % 70);
    order.erase(std::remove(order.begin(), order.end(), key), order.end());
    if (version % 5 == 4) {
      ASSERT_TRUE(IsOk(store->Erase(&key, 1)));
    } else {
      ASSERT_TRUE(IsOk(PutRecords(store.get(), {key}, version)));
      order.push_back(key);
    }
    const auto n = static_cast<size_t>(random() % 10);
    std::vector<int64_t> keys;
    std::vector<char> records;
    ASSERT_TRUE(IsOk(store->Oldest(static_cast<int64_t>(n), &keys, &records)));
    const std::vector<int64_t> first(order.begin(), order.begin() + std::min(n, order.size()));
    ASSERT_EQ(keys, first);
    ASSERT_EQ(records.size(), keys.size() * 100);
  }
  const auto unordered = Open(Pmem(folder / "other"));
  std::vector<int64_t> keys;
  EXPECT_TRUE(FailsWith(StatusCode::kUnimplemented, "pmem does not; make it the last one",
                        unordered->Oldest(1, &keys, nullptr)));
}

// Fills the store until it fails, then gives the disk room.
void CheckFullDisk(RowStore* store, const std::string& folder, const std::function<void()>& grow) {
  Status status;
  int64_t end = 0;
  for (; end < 100000 && status.ok(); end += status.ok() ? 15 : 0) {
    status = PutRecords(store, Range(end, end + 15), 1);
  }
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, folder, status));
  EXPECT_EQ(WalkStore(*store, 1000), Records(Range(0, end), 1, store->record_bytes()));
  // Entries that are free still take rows.
  const std::vector<int64_t> some = Range(0, 15);
  ASSERT_TRUE(IsOk(store->Erase(some.data(), 15)));
  ASSERT_TRUE(IsOk(PutRecords(store, Range(0, 10), 2)));
  grow();
  ASSERT_TRUE(IsOk(PutRecords(store, Range(0, end + 15), 3)));
  EXPECT_EQ(WalkStore(*store, 1000), Records(Range(0, end + 15), 3, store->record_bytes()));
}

TEST(PmemStore, LosesNothingWhenNoFileCanBeMade) {
  for (int64_t creations = 1; creations < 4; ++creations) {
    const TempFolder folder;
    FaultyFileSystem file_system;
    file_system.creations_left = creations;
    PmemOptions options = Pmem(folder / "store");
    options.file_system = &file_system;
    const auto store = Open(options);
    CheckFullDisk(store.get(), folder / "store", [&] { file_system.creations_left = INT64_MAX; });
  }
}

TEST(PmemStore, LosesNothingWhenTheDiskIsFull) {
  const TempFolder folder;
  if (::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=256k") != 0) {
    GTEST_SKIP() << "this user may not mount a small disk";
  }
  PmemOptions options = Pmem(folder / "store");
  options.extent_bytes = 50000;
  auto store = Open(options);
  CheckFullDisk(store.get(), folder / "store", [&] {
    ASSERT_EQ(::mount("tmpfs", folder.path().c_str(), "tmpfs", MS_REMOUNT, "size=16m"), 0);
  });
  store.reset();
  EXPECT_TRUE(folder.Contents().empty());
  EXPECT_EQ(::umount(folder.path().c_str()), 0);
}

TEST(PmemStore, TellsWhatTheFileHasChanged) {
  const TempFolder folder;
  PmemOptions options = Pmem(folder / "store");
  options.keeps_order = true;
  const auto store = Open(options);
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 70), 1)));
  const std::string path = folder / "store/000001.pmem";
  const int64_t offset = 64 + 5 * kStride;  // key 25 is entry 5 of the second extent
  CheckDamagedEntry(store.get(), 25, path, offset);
  for (const int64_t byte : {3, 9, 60}) {
    FlipByte(path, offset + byte);
    std::vector<int64_t> oldest;
    std::vector<char> read;
    ASSERT_TRUE(IsOk(store->Oldest(26, &oldest, &read)));
    EXPECT_EQ(oldest.back(), 26) << "rows that can be read may leave";
    FlipByte(path, offset + byte);
  }
  FlipByte(path, offset + 60);
  ASSERT_TRUE(IsOk(PutRecords(store.get(), {25}, 2)));
  ExpectStored(*store, {25}, Records({25}, 2, 100));
}

TEST(PmemStore, ServesReadersWhileItIsWritten) {
  const TempFolder folder;
  PmemOptions options = Pmem(folder / "store");
  options.keeps_order = true;
  CheckReadsOfReplacedRows(Open(options).get(), 100);
}

TEST(PmemStore, IsATierBelowMemory) {
  for (const int64_t first_bytes : {1, 40000}) {
    for (const RuleOptions& rule : {AdagradRule(0.1), AdamRule()}) {
      CheckTieredTable({{"pmem"}, {first_bytes, 2 << 20}, "", "LRU"}, rule);
    }
  }
}

}  // namespace keras_sparse::pmem_store_test
