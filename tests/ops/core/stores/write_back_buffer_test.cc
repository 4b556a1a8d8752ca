#include "ops/core/stores/write_back_buffer.h"

#include <chrono>

#include "tests/ops/core/support/check_store.h"
#include "tests/ops/core/support/faulty_file_system.h"
#include "tests/ops/core/support/gate.h"
#include "tests/ops/core/support/small_store.h"

namespace keras_sparse::write_back_buffer_test {

constexpr int64_t kMuch = int64_t{1} << 30;
constexpr int64_t kRecordBytes = 100;

WriteBackBuffer OverDram(BackgroundPool* pool, int64_t max_queued_bytes = kMuch) {
  return {std::make_unique<DramStore>(kRecordBytes), pool, max_queued_bytes};
}

TEST(WriteBackBuffer, KeepsTheContractOfAStore) {
  const TempFolder folder;
  using Sizes = std::pair<int, int64_t>;  // threads, bytes of the queue
  for (const auto& [num_threads, max_queued_bytes] :
       {Sizes(1, 1), Sizes(3, 3000), Sizes(1, kMuch)}) {
    BackgroundPool pool(num_threads);
    const int64_t bytes = max_queued_bytes;
    CheckStore([&](int64_t record_bytes) {
      return std::make_unique<WriteBackBuffer>(std::make_unique<DramStore>(record_bytes), &pool,
                                               bytes);
    });
    CheckStore([&](int64_t record_bytes) {
      return std::make_unique<WriteBackBuffer>(
          OpenSsd(SsdOf(folder / std::to_string(record_bytes), record_bytes)), &pool, bytes);
    });
  }
  EXPECT_TRUE(folder.Contents().empty());
}

TEST(WriteBackBuffer, ReadsWhatIsNotWrittenYet) {
  BackgroundPool pool(1);
  WriteBackBuffer store = OverDram(&pool);
  ASSERT_TRUE(IsOk(PutRecords(&store, Range(0, 10), 1)));
  ASSERT_TRUE(IsOk(store.Flush()));
  Gate gate(&pool);
  const std::vector<int64_t> erased = Range(0, 5);
  ASSERT_TRUE(IsOk(store.Erase(erased.data(), 5)));
  ASSERT_TRUE(IsOk(PutRecords(&store, Range(3, 8), 2)));
  ASSERT_TRUE(IsOk(store.Erase(erased.data() + 4, 1)));
  ASSERT_TRUE(IsOk(PutRecords(&store, Range(20, 22), 3)));
  StoredRecords expected = Records(Range(5, 10), 1, kRecordBytes);
  for (const auto& [keys, version] : {std::pair(Range(3, 8), 2), std::pair(Range(20, 22), 3)}) {
    for (const auto& [key, record] : Records(keys, version, kRecordBytes)) expected[key] = record;
  }
  expected.erase(4);
  EXPECT_EQ(store.num_rows(), static_cast<int64_t>(expected.size()));
  EXPECT_GT(store.memory_bytes(), 7 * kRecordBytes);
  ExpectStored(store, RandomIds(200, -5, 30, 1), expected);
  gate.Open();
  EXPECT_EQ(WalkStore(store, 3), expected);
  EXPECT_EQ(store.num_rows(), static_cast<int64_t>(expected.size()));
  EXPECT_LT(store.memory_bytes(), 7 * kRecordBytes);
}

TEST(WriteBackBuffer, LetsPutWaitWhereTheQueueIsLong) {
  BackgroundPool pool(1);
  WriteBackBuffer store = OverDram(&pool, 20 * kRecordBytes);
  Gate gate(&pool);
  // One change is taken whatever its size.
  ASSERT_TRUE(IsOk(PutRecords(&store, Range(0, 100), 1)));
  std::future<Status> second =
      std::async(std::launch::async, [&] { return PutRecords(&store, Range(100, 110), 1); });
  EXPECT_EQ(second.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  gate.Open();
  ASSERT_TRUE(IsOk(second.get()));
  EXPECT_EQ(store.num_rows(), 110);
}

TEST(WriteBackBuffer, EndsWithoutWritingWhatIsQueued) {
  const TempFolder folder;
  BackgroundPool pool(1);
  Gate gate(&pool);
  {
    WriteBackBuffer store(OpenSsd(SsdOf(folder / "store", kRecordBytes)), &pool, kMuch);
    ASSERT_TRUE(IsOk(PutRecords(&store, Range(0, 1000), 1)));
    EXPECT_EQ(store.bytes(), 0);
  }
  EXPECT_TRUE(folder.Contents().empty());
  gate.Open();
  const Gate after(&pool);  // what was scheduled has found no store
  EXPECT_TRUE(folder.Contents().empty());
}

TEST(WriteBackBuffer, KeepsWhatCannotBeWritten) {
  const TempFolder folder;
  FaultyFileSystem file_system;
  BackgroundPool pool(1);
  WriteBackBuffer store(OpenSsd(SsdOf(folder / "store", kRecordBytes, 4096, &file_system)), &pool,
                        kMuch);
  StoredRecords expected = Records(Range(0, 1000), 1, kRecordBytes);
  ASSERT_TRUE(IsOk(PutRecords(&store, Range(0, 1000), 1)));
  ASSERT_TRUE(IsOk(store.Flush()));
  for (const int64_t writes : {0, 3}) {  // before anything of a change is written, and amid it
    file_system.writes_left = writes;
    const int64_t version = 2 + writes;
    ASSERT_TRUE(IsOk(PutRecords(&store, Range(500, 1500), version)));
    EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "could not write", store.Flush()));
    const std::vector<int64_t> erased = {3, 700};
    ASSERT_TRUE(IsOk(store.Erase(erased.data(), 2)));
    for (const auto& [key, record] : Records(Range(500, 1500), version, kRecordBytes)) {
      expected[key] = record;
    }
    expected.erase(3);
    expected.erase(700);
    for (int attempt = 0; attempt < 2; ++attempt) {
      EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "could not write",
                            PutRecords(&store, {5000}, 1)));
      ExpectStored(store, RandomIds(500, -10, 1600, 3), expected);
      EXPECT_EQ(store.num_rows(), static_cast<int64_t>(expected.size()));
      EXPECT_EQ(WalkStore(store, 100), expected);
      EXPECT_FALSE(store.Flush().ok());
    }
    file_system.writes_left = INT64_MAX;  // the disk has room again
    EXPECT_FALSE(store.Flush().ok()) << "a walk that has begun must stay what it is";
    ASSERT_TRUE(IsOk(PutRecords(&store, {6000 + writes}, 1)));
    expected[6000 + writes] = MakeRecord(6000 + writes, 1, kRecordBytes);
    ASSERT_TRUE(IsOk(store.Flush()));
    EXPECT_EQ(WalkStore(store, 100), expected);
  }
  file_system.writes_left = 0;
  ASSERT_TRUE(IsOk(PutRecords(&store, Range(0, 1000), 9)));
  EXPECT_FALSE(store.Flush().ok());
  file_system.writes_left = INT64_MAX;
  ASSERT_TRUE(IsOk(store.Clear()));
  CheckEmptyStore(&store);
}

TEST(WriteBackBuffer, LinksWhatWasQueued) {
  const TempFolder folder;
  BackgroundPool pool(1);
  WriteBackBuffer store(OpenSsd(SsdOf(folder / "store", kRecordBytes)), &pool, kMuch);
  EXPECT_TRUE(store.links_all());
  ASSERT_TRUE(IsOk(PutRecords(&store, Range(0, 100), 1)));
  ASSERT_TRUE(IsOk(store.Flush()));
  Gate gate(&pool);
  ASSERT_TRUE(IsOk(PutRecords(&store, Range(50, 150), 2)));
  const std::vector<int64_t> erased = Range(0, 10);
  ASSERT_TRUE(IsOk(store.Erase(erased.data(), 10)));
  std::vector<LinkedFile> files;
  std::future<StoredRecords> linked =
      std::async(std::launch::async, [&] { return LinkStore(&store, folder / "x-", &files); });
  EXPECT_EQ(linked.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  gate.Open();
  StoredRecords expected = Records(Range(10, 50), 1, kRecordBytes);
  expected.merge(Records(Range(50, 150), 2, kRecordBytes));
  EXPECT_EQ(linked.get(), expected);
}

TEST(WriteBackBuffer, LinksNothingWhileItCannotWrite) {
  const TempFolder folder;
  FaultyFileSystem file_system;
  BackgroundPool pool(1);
  WriteBackBuffer store(OpenSsd(SsdOf(folder / "store", kRecordBytes, 4096, &file_system)), &pool,
                        kMuch);
  ASSERT_TRUE(IsOk(PutRecords(&store, Range(0, 1000), 1)));
  ASSERT_TRUE(IsOk(store.Flush()));
  file_system.writes_left = 3;
  ASSERT_TRUE(IsOk(PutRecords(&store, Range(500, 1500), 2)));
  std::vector<LinkedFile> files;
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "could not write",
                        store.LinkFiles(folder / "x-", &files)));
  EXPECT_TRUE(files.empty());
  for (const std::string& path : folder.Contents()) EXPECT_EQ(path.find("store"), 0u) << path;
  // All rows can still be copied, and linked once there is room.
  StoredRecords expected = Records(Range(0, 500), 1, kRecordBytes);
  expected.merge(Records(Range(500, 1500), 2, kRecordBytes));
  EXPECT_EQ(WalkStore(store, 100), expected);
  file_system.writes_left = INT64_MAX;
  ASSERT_TRUE(IsOk(PutRecords(&store, {0}, 1)));
  EXPECT_EQ(LinkStore(&store, folder / "y-", &files), expected);
}

TEST(WriteBackBuffer, WorksOnOnceItsPoolHasStopped) {
  BackgroundPool pool(1);
  WriteBackBuffer store = OverDram(&pool);
  {
    auto gate = std::make_unique<Gate>(&pool);
    ASSERT_TRUE(IsOk(PutRecords(&store, Range(0, 10), 1)));
    std::thread stopper([&pool] { pool.Stop(); });
    while (pool.Schedule([] {})) std::this_thread::yield();
    gate = nullptr;
    stopper.join();
  }
  EXPECT_EQ(WalkStore(store, 3), Records(Range(0, 10), 1, kRecordBytes));
  ASSERT_TRUE(IsOk(PutRecords(&store, Range(10, 20), 1)));
  ASSERT_TRUE(IsOk(store.Flush()));
  EXPECT_EQ(WalkStore(store, 3), Records(Range(0, 20), 1, kRecordBytes));
}

// Each thread has keys of its own, and knows what they hold; the pools write and compact meanwhile.
TEST(WriteBackBuffer, GivesEachThreadWhatItHasPut) {
  const TempFolder folder;
  BackgroundPool pool(2);
  BackgroundPool compaction_pool(1);
  SsdHashOptions options = SsdOf(folder / "store", kRecordBytes, 8192);
  options.compaction_pool = &compaction_pool;
  auto ssd = OpenSsd(options);
  WriteBackBuffer store(std::move(ssd), &pool, 50000);
  std::vector<StoredRecords> expected(3);
  InThreads(3, [&](int64_t t) {
    StoredRecords& mine = expected[static_cast<size_t>(t)];
    std::mt19937_64 random(static_cast<uint64_t>(t));
    for (int64_t i = 0; i < 150; ++i) {
      const std::vector<int64_t> keys = RandomIds(40, t * 1000, t * 1000 + 200, random());
      if (random() % 4 == 0) {
        ASSERT_TRUE(IsOk(store.Erase(keys.data(), 40)));
        for (const int64_t key : keys) mine.erase(key);
      } else {
        ASSERT_TRUE(IsOk(PutRecords(&store, keys, i)));
        for (const int64_t key : keys) mine[key] = MakeRecord(key, i, kRecordBytes);
      }
      ExpectStored(store, RandomIds(60, t * 1000, t * 1000 + 200, random()), mine);
    }
  });
  StoredRecords all;
  for (const StoredRecords& each : expected) all.insert(each.begin(), each.end());
  EXPECT_EQ(store.num_rows(), static_cast<int64_t>(all.size()));
  EXPECT_EQ(WalkStore(store, 100), all);
}

}  // namespace keras_sparse::write_back_buffer_test
