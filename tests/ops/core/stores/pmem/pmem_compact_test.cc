// What Compact leaves of rows that have gone in the files of a PmemStore: nothing.

#include "ops/core/stores/pmem/pmem_store.h"
#include "ops/core/stores/tiered_store.h"
#include "tests/ops/core/support/check_compact.h"
#include "tests/ops/core/support/faulty_file_system.h"
#include "tests/ops/core/support/small_store.h"

namespace keras_sparse::pmem_compact_test {

std::unique_ptr<RowStore> Open(const std::string& folder, int64_t capacity = INT64_MAX,
                               FileSystem* file_system = FileSystem::Posix()) {
  PmemOptions options;
  options.file_system = file_system;
  options.folder = folder;
  options.record_bytes = kBytes;
  options.extent_bytes = 64 + 20 * kStride;
  options.capacity = capacity;
  options.keeps_order = true;
  std::unique_ptr<RowStore> store;
  EXPECT_TRUE(IsOk(PmemStore::Open(options, &store)));
  return store;
}

TEST(PmemCompact, LeavesNoByteOfWhatHasGone) {
  const TempFolder folder;
  const TempFolder links;
  CheckCompact(Open(folder / "store").get(), folder, links);
}

TEST(PmemCompact, LeavesNoByteOfWhatHasMovedDown) {
  const TempFolder folder;
  const TempFolder links;
  std::unique_ptr<RowStore> store;
  ASSERT_TRUE(IsOk(TieredStore::Open(Open(folder / "upper", 3 * (64 + 20 * kStride)),
                                     OpenLinked(folder / "lower"), &store)));
  CheckCompact(store.get(), folder, links);
  // All that is in the upper tier moves down: its files then have nothing.
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 40), 1)));
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(100, 300), 1)));
  ASSERT_TRUE(IsOk(store->Compact()));
  GoneRecords moved;
  for (const int64_t key : Range(0, 40)) moved.Add(MakeRecord(key, 1, kBytes));
  ASSERT_TRUE(IsOk(store->Erase(Range(0, 40).data(), 40)));
  ASSERT_TRUE(IsOk(store->Compact()));
  EXPECT_EQ(moved.CountIn(folder), 0);
}

TEST(PmemCompact, RemovesAFileThatCouldNotBeRemoved) {
  const TempFolder folder;
  FaultyFileSystem file_system;
  const auto store = Open(folder / "store", INT64_MAX, &file_system);
  TrackedStore tracked(store.get());
  tracked.Put(Range(0, 100), 1);
  file_system.removals_left = 0;
  ASSERT_TRUE(IsOk(store->Clear()));
  for (int64_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(
        FailsWith(StatusCode::kFailedPrecondition, folder / "store/00000", store->Compact()));
    file_system.removals_left = 2;
  }
  file_system.removals_left = INT64_MAX;
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 10), 2)));
  ASSERT_TRUE(IsOk(store->Compact()));
  EXPECT_EQ(folder.Contents().size(), 2u);
  EXPECT_EQ(WalkStore(*store, 100), Records(Range(0, 10), 2, kBytes));
}

}  // namespace keras_sparse::pmem_compact_test
