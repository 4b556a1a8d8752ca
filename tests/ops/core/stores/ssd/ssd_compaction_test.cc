// Compaction in the background, of a store that ends meanwhile, and beside one whose disk is full.

#include <chrono>

#include "ops/core/stores/write_back_buffer.h"
#include "tests/ops/core/support/check_store.h"
#include "tests/ops/core/support/faulty_file_system.h"
#include "tests/ops/core/support/gate.h"
#include "tests/ops/core/support/small_store.h"
#include "tests/ops/core/support/table_access.h"
#include "tests/ops/core/support/table_testing.h"

namespace keras_sparse::ssd_compaction_test {

constexpr int64_t kRecordBytes = 100;

std::unique_ptr<RowStore> Open(const std::string& folder, BackgroundPool* compaction_pool,
                               FileSystem* file_system = FileSystem::Posix(),
                               int64_t record_bytes = kRecordBytes) {
  SsdHashOptions options = SsdOf(folder, record_bytes, 4096, file_system);
  options.compaction_pool = compaction_pool;
  return OpenSsd(options);
}

// Stops the compaction at one of its reads.
class HeldRead {
 public:
  HeldRead(FaultyFileSystem* file_system, int64_t number) : left_(number) {
    file_system->before_read = [this] {
      if (left_-- != 0) return;
      held_.set_value();
      released_.get_future().wait();
    };
  }

  void WaitUntilHeld() { held_.get_future().wait(); }
  void Release() { released_.set_value(); }

 private:
  std::atomic<int64_t> left_;
  std::promise<void> held_;
  std::promise<void> released_;
};

TEST(SsdCompaction, OfAStoreThatEndsLeavesNothing) {
  // In the first segment that is compacted, and in later ones.
  for (const int64_t number : {0, 1, 5}) {
    const TempFolder folder;
    FaultyFileSystem file_system;
    BackgroundPool pool(1);
    auto store = Open(folder / "store", &pool, &file_system);
    ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 1000), 1)));
    HeldRead read(&file_system, number);
    std::vector<int64_t> erased;
    for (int64_t key = 0; key < 1000; ++key) {
      if (key % 5 > 1) erased.push_back(key);
    }
    ASSERT_TRUE(IsOk(store->Erase(erased.data(), static_cast<int64_t>(erased.size()))));
    ASSERT_TRUE(IsOk(PutRecords(store.get(), {2000}, 1)));
    read.WaitUntilHeld();
    StoredRecords expected = Records(Range(0, 1000), 1, kRecordBytes);
    for (const int64_t key : erased) expected.erase(key);
    expected.merge(Records({2000}, 1, kRecordBytes));
    std::vector<LinkedFile> files;
    EXPECT_EQ(LinkStore(store.get(), folder / "x-", &files), expected);

    auto ended = std::async(std::launch::async, [&store] { store.reset(); });
    EXPECT_EQ(ended.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
    read.Release();
    ended.wait();
    EXPECT_EQ(folder.Contents().size(), files.size()) << "what was linked is all there is";
    EXPECT_EQ(ReadLinked(files, kRecordBytes), expected);
    const Gate after(&pool);  // what was scheduled has found no store
    EXPECT_EQ(folder.Contents().size(), files.size());
  }
}

TEST(SsdCompaction, ThatHasNotBegunFindsNoStore) {
  const TempFolder folder;
  BackgroundPool pool(1);
  Gate gate(&pool);
  auto store = Open(folder / "store", &pool);
  for (int64_t version = 0; version < 5; ++version) {
    ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 200), version)));
  }
  EXPECT_EQ(store->compacted_bytes(), 0);
  store.reset();
  EXPECT_TRUE(folder.Contents().empty());
  gate.Open();
  const Gate after(&pool);
  EXPECT_TRUE(folder.Contents().empty());
}

TEST(SsdCompaction, AndWritesInTheBackgroundMayEndAtAnyTime) {
  const TempFolder folder;
  BackgroundPool pool(1);
  BackgroundPool compaction_pool(1);
  for (uint64_t seed = 0; seed < 100; ++seed) {
    WriteBackBuffer store(Open(folder / "store", &compaction_pool), &pool, int64_t{1} << 20);
    for (int64_t version = 0; version < 1 + static_cast<int64_t>(seed % 10); ++version) {
      const std::vector<int64_t> keys = RandomIds(100, 0, 150, seed);
      ASSERT_TRUE(IsOk(PutRecords(&store, keys, version)));
      ASSERT_TRUE(IsOk(store.Erase(keys.data(), 30)));
    }
    if (seed % 3 == 0) {
      ASSERT_TRUE(IsOk(store.Flush()));
    }
  }
  EXPECT_TRUE(folder.Contents().empty());
}

TEST(SsdCompaction, OfATableThatEndsLeavesNothing) {
  const TempFolder folder;
  ::setenv("KERAS_SPARSE_SSDHASH_ASYNC_COMPACTION", "1", 1);
  for (uint64_t seed = 0; seed < 30; ++seed) {
    TableOptions options = Dynamic(64);
    options.storage = {{"ssdhash"}, {1, 1 << 21}, folder / "rows", "LRU"};
    const auto table = OpenWithRule(options, SgdRule());
    for (uint64_t step = 0; step < 1 + seed % 8; ++step) {
      const std::vector<int64_t> ids = RandomIds(1000, 0, 2000, seed + step);
      ASSERT_TRUE(IsOk(Apply(table.get(), {0.1f}, ids, RandomFloats(64000, seed))));
    }
  }
  ::unsetenv("KERAS_SPARSE_SSDHASH_ASYNC_COMPACTION");
  EXPECT_TRUE(folder.Contents().empty());
}

TEST(SharedPools, ServeATableWhileTheDiskOfAnotherIsFull) {
  constexpr int64_t kDim = 16;
  const TempFolder folder;
  BackgroundPool pool(1);
  BackgroundPool compaction_pool(1);
  std::array<FaultyFileSystem, 2> envs;
  std::vector<std::unique_ptr<EmbeddingTable>> tables;
  std::vector<std::unique_ptr<EmbeddingTable>> plain;
  for (size_t t = 0; t < 2; ++t) {
    tables.push_back(OpenWithRule(Dynamic(kDim), SgdRule()));
    plain.push_back(OpenWithRule(Dynamic(kDim), SgdRule()));
    auto ssd = Open(folder / std::to_string(t), &compaction_pool, &envs[t], 4 * kDim);
    ASSERT_TRUE(IsOk(AddLowerTier(tables[t].get(), std::make_unique<WriteBackBuffer>(
                                                       std::move(ssd), &pool, int64_t{1} << 20))));
  }
  const auto train = [&](size_t t, uint64_t seed) {
    const std::vector<int64_t> ids = RandomIds(300, 0, 600, seed);
    const std::vector<float> grads = RandomFloats(300 * kDim, seed);
    ASSERT_TRUE(IsOk(Subtract(tables[t].get(), ids, grads)));
    ASSERT_TRUE(IsOk(Subtract(plain[t].get(), ids, grads)));
  };
  const std::vector<int64_t> keys = Range(0, 600);
  const auto demote = [&](size_t t) { return Demote(tables[t].get(), keys.data(), 600); };
  bool has_failed = false;
  for (uint64_t step = 0; step < 40; ++step) {
    if (step == 10) envs[0].writes_left = 1;
    if (step == 30) envs[0].writes_left = INT64_MAX;
    for (const size_t t : {0, 1}) train(t, step);
    const Status demoted = demote(0);
    has_failed = has_failed || !demoted.ok();
    if (step < 10 || step > 30) {
      ASSERT_TRUE(IsOk(demoted));
    }
    if (step == 29) {
      EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "could not write", demoted));
    }
    ASSERT_TRUE(IsOk(demote(1)));
    ASSERT_EQ(StatsOf(*tables[1]).rows, NumRowsOf(*plain[1]));  // waits until all is written
    ASSERT_EQ(CountInFirstTier(*tables[1], keys.data(), 600), 0);
  }
  EXPECT_TRUE(has_failed);
  {
    const Gate gate(&compaction_pool);  // it has begun with what was scheduled before
  }
  EXPECT_GT(TierStatsOf(*tables[1])[1].compacted_bytes, 0);
  for (const size_t t : {0, 1}) EXPECT_EQ(ExportAll(*tables[t]), ExportAll(*plain[t])) << t;
}

}  // namespace keras_sparse::ssd_compaction_test
