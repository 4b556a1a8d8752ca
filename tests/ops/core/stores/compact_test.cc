// Compact of stores over others, and of one in memory.

#include "ops/core/stores/instrumented_store.h"
#include "ops/core/stores/tiered_store.h"
#include "ops/core/stores/write_back_buffer.h"
#include "tests/ops/core/support/check_compact.h"
#include "tests/ops/core/support/faulty_file_system.h"
#include "tests/ops/core/support/gate.h"
#include "tests/ops/core/support/small_store.h"

namespace keras_sparse::compact_test {

TEST(Compact, OfAStoreInMemoryHasNothingToDo) {
  const TempFolder folder;
  const TempFolder links;
  DramStore store(kBytes);
  CheckCompact(&store, folder, links, false);
}

TEST(Compact, ReachesTheStoreBelowAQueueAndACount) {
  const TempFolder folder;
  const TempFolder links;
  BackgroundPool pool(1);
  auto counted = std::make_unique<InstrumentedStore>(OpenLinked(folder / "store"));
  WriteBackBuffer store(std::move(counted), &pool, int64_t{1} << 20);
  CheckCompact(&store, folder, links);
}

TEST(Compact, ReachesBothTiersOfACascade) {
  const TempFolder folder;
  const TempFolder links;
  // The upper one has room for 40 rows: most of the others are on their way down, and change there.
  std::unique_ptr<RowStore> store;
  ASSERT_TRUE(IsOk(TieredStore::Open(std::make_unique<DramStore>(kBytes, 40 * (kBytes + 40), true),
                                     OpenLinked(folder / "store"), &store)));
  CheckCompact(store.get(), folder, links);
}

TEST(Compact, MakesWhatIsQueuedFirst) {
  const TempFolder folder;
  BackgroundPool pool(1);
  WriteBackBuffer store(OpenLinked(folder / "store"), &pool, int64_t{1} << 20);
  TrackedStore tracked(&store);
  tracked.Put(Range(0, 1000), 1);
  ASSERT_TRUE(IsOk(store.Flush()));
  {
    Gate gate(&pool);
    tracked.Erase(Range(100, 800));
    tracked.Put(Range(0, 50), 2);
    EXPECT_GT(tracked.gone().CountIn(folder), 0);
  }
  ASSERT_TRUE(IsOk(store.Compact()));
  EXPECT_EQ(tracked.gone().CountIn(folder), 0);
  EXPECT_EQ(WalkStore(store, 100), tracked.held());
}

TEST(Compact, TriesOnceMoreWhatTheDiskHadNoRoomFor) {
  const TempFolder folder;
  FaultyFileSystem file_system;
  BackgroundPool pool(1);
  WriteBackBuffer store(OpenLinked(folder / "store", &file_system), &pool, int64_t{1} << 20);
  TrackedStore tracked(&store);
  tracked.Put(Range(0, 1000), 1);
  ASSERT_TRUE(IsOk(store.Flush()));
  file_system.writes_left = 0;
  tracked.Put(Range(500, 1500), 2);
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "could not write", store.Compact()));
  EXPECT_EQ(WalkStore(store, 100), tracked.held());
  file_system.writes_left = INT64_MAX;
  ASSERT_TRUE(IsOk(store.Compact()));
  EXPECT_EQ(tracked.gone().CountIn(folder), 0);
  EXPECT_EQ(WalkStore(store, 100), tracked.held());
}

}  // namespace keras_sparse::compact_test
