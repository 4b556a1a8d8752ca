#include "ops/core/stores/hbm/hbm_store.h"

#include "ops/core/index/hbm_index_find.h"
#include "tests/ops/core/device/device_testing.h"
#include "tests/ops/core/support/check_store.h"

namespace keras_sparse::hbm_store_test {

constexpr int64_t kRecordBytes = 36;
constexpr int64_t kStride = 64;

std::unique_ptr<HbmStore> OpenStore(Device* device, int64_t num_rows,
                                    int64_t record_bytes = kRecordBytes,
                                    int64_t capacity = INT64_MAX) {
  std::unique_ptr<HbmStore> store;
  EXPECT_TRUE(IsOk(HbmStore::Open(device, num_rows, record_bytes, {capacity, ""}, &store)));
  return store;
}

Status Create(HbmStore* store, Device* device, const std::vector<int64_t>& keys,
              DeviceArray<uint32_t>* rows) {
  DeviceArray<int64_t> there;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<int64_t>::Copy(device, keys, &there));
  return store->Create(there.data(), there.size(), rows);
}

std::vector<uint32_t> Create(HbmStore* store, Device* device, const std::vector<int64_t>& keys) {
  DeviceArray<uint32_t> rows;
  EXPECT_TRUE(IsOk(Create(store, device, keys, &rows)));
  return Values(rows);
}

TEST(HbmStore, KeepsTheContractOfAStore) {
  const auto device = OpenDevice();
  CheckStore([&](int64_t record_bytes) { return OpenStore(device.get(), -1, record_bytes); });
}

TEST(HbmStore, GivesFreedRowsAgainAndThenNewOnes) {
  InAnyOrder([] {
    const auto device = OpenDevice();
    const auto store = OpenStore(device.get(), -1);
    EXPECT_FALSE(store->is_static());
    EXPECT_EQ(Create(store.get(), device.get(), {7, -7, 9, 0}),
              (std::vector<uint32_t>{0, 1, 2, 3}));
    const std::vector<int64_t> gone = {-7, 100, 0, -7};
    ASSERT_TRUE(IsOk(store->Erase(gone.data(), 4)));
    EXPECT_EQ(store->num_rows(), 2);
    EXPECT_EQ(Create(store.get(), device.get(), {5, 6, 4}), (std::vector<uint32_t>{1, 3, 4}));
    EXPECT_EQ(store->num_rows(), 5);
    EXPECT_GE(store->records_view().num_rows, 5);
    // Put takes them in the same way, and a walk follows their numbers.
    ASSERT_TRUE(IsOk(store->Erase(gone.data(), 4)));
    ASSERT_TRUE(IsOk(PutRecords(store.get(), {9, 8, 5, 4, 6, 7}, 1)));
    std::vector<int64_t> keys;
    std::vector<char> records;
    int64_t next = 0;
    ASSERT_TRUE(IsOk(store->Walk(0, 4, &keys, &records, &next)));
    EXPECT_EQ(keys, (std::vector<int64_t>{7, 5, 9, 6}));
    EXPECT_EQ(next, 4);
    ASSERT_TRUE(IsOk(store->Walk(next, 4, &keys, &records, &next)));
    EXPECT_EQ(keys, (std::vector<int64_t>{7, 5, 9, 6, 4, 8}));
    EXPECT_EQ(next, -1);
  });
}

__global__ void FillKernel(RecordsView records, HbmIndexView index, const int64_t* keys, int64_t n,
                           float value) {
  for (int64_t i = cuda_impl::LaneOfKernel(); i < n; i += cuda_impl::LanesOfKernel()) {
    float* record = records.Record(index.Find(keys[i]));
    for (int word = 0; word < 9; ++word) record[word] = value;
  }
}

TEST(HbmStore, HasWhatKernelsWriteIntoItsRows) {
  const auto device = OpenDevice();
  const auto store = OpenStore(device.get(), -1);
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 100), 1)));
  const std::vector<int64_t> keys = {1000, 1001, 1002};
  (void)Create(store.get(), device.get(), keys);
  const auto keys_there = OnDevice(device.get(), keys);
  cuda_impl::Launch(FillKernel, 1, 32, device->stream(), store->records_view(), store->index_view(),
                    keys_there.data(), int64_t{3}, 2.5f);
  StoredRecords expected = Records(Range(0, 100), 1, kRecordBytes);
  const std::vector<float> written(9, 2.5f);
  for (const int64_t key : keys) {
    expected[key] = std::string(reinterpret_cast<const char*>(written.data()), kRecordBytes);
  }
  EXPECT_EQ(WalkStore(*store, 17), expected);
}

TEST(HbmStore, HoldsAsManyRowsAsItsSizeAllows) {
  const auto device = OpenDevice();
  const auto store = OpenStore(device.get(), -1, kRecordBytes, 100 * kStride + 63);
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 90), 1)));
  EXPECT_EQ(store->Room(), 10);
  std::vector<int64_t> keys = Range(85, 101);
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted,
                        "Received: 6463 bytes where 101 rows take 6464",
                        PutRecords(store.get(), keys, 2)));
  DeviceArray<uint32_t> rows;
  keys = Range(100, 111);
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "has no lower tier; give it more",
                        Create(store.get(), device.get(), keys, &rows)));
  EXPECT_EQ(WalkStore(*store, 1000), Records(Range(0, 90), 1, kRecordBytes));
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 100), 3)));
  EXPECT_EQ(store->Room(), 0);
  EXPECT_EQ(store->records_view().num_rows, 100);
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 100), 4)));  // which need no more
  ASSERT_TRUE(IsOk(store->Erase(keys.data(), 0)));
  const std::vector<int64_t> gone = {50};
  ASSERT_TRUE(IsOk(store->Erase(gone.data(), 1)));
  ASSERT_TRUE(IsOk(PutRecords(store.get(), {-50}, 4)));
  EXPECT_EQ(store->num_rows(), 100);
  EXPECT_EQ(OpenStore(device.get(), -1, kRecordBytes, 63)->Room(), 0);
}

TEST(HbmStore, LosesNothingIfTheGpuHasNoRoom) {
  const auto device = OpenDevice();
  const auto store = OpenStore(device.get(), -1);
  StoredRecords expected;
  for (int64_t round = 0; round < 3; ++round) {
    const std::vector<int64_t> keys = Range(round * 150, round * 200 + 200);
    FailAtEachAllocation([&] { return PutRecords(store.get(), keys, round); },
                         [&] {
                           EXPECT_EQ(store->num_rows(), static_cast<int64_t>(expected.size()));
                           EXPECT_EQ(WalkStore(*store, 100), expected);
                         });
    for (const int64_t key : keys) expected[key] = MakeRecord(key, round, kRecordBytes);
    EXPECT_EQ(WalkStore(*store, 100), expected);
    std::vector<int64_t> created = Range(10000 * (round + 1), 10000 * (round + 1) + 90);
    DeviceArray<uint32_t> rows;
    FailAtEachAllocation([&] { return Create(store.get(), device.get(), created, &rows); },
                         [&] { EXPECT_EQ(WalkStore(*store, 100), expected); });
    EXPECT_EQ(rows.size(), 90);
    ASSERT_TRUE(IsOk(store->Erase(created.data(), 90)));
    created = Range(5, 60);
    ASSERT_TRUE(IsOk(store->Erase(created.data(), 55)));
    for (const int64_t key : created) expected.erase(key);
  }
  std::unique_ptr<HbmStore> opened;
  FailAtEachAllocation([&] { return HbmStore::Open(device.get(), 0, 8, HbmLimit(), &opened); },
                       [] {});
  FailAtEachAllocation([&] { return HbmStore::Open(device.get(), 1000, 8, HbmLimit(), &opened); },
                       [] {});
}

#ifndef __CUDACC__

TEST(HbmStore, IsReadAndEmptiedWhereTheGpuIsFull) {
  const auto device = OpenDevice();
  const auto store = OpenStore(device.get(), -1);
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 300), 1)));
  emulated::options().allocations_left = 0;
  StoredRecords expected = Records(Range(0, 300), 1, kRecordBytes);
  ExpectStored(*store, Range(-50, 350), expected);
  EXPECT_EQ(WalkStore(*store, 128), expected);
  const std::vector<int64_t> gone = Range(0, 200);
  ASSERT_TRUE(IsOk(store->Erase(gone.data(), 200)));
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(100, 250), 2)));  // in the rows of others
  emulated::options().allocations_left = INT64_MAX;
  expected = Records(Range(250, 300), 1, kRecordBytes);
  const StoredRecords others = Records(Range(100, 250), 2, kRecordBytes);
  expected.insert(others.begin(), others.end());
  EXPECT_EQ(WalkStore(*store, 128), expected);
}

#endif

// Of several pieces each.
TEST(HbmStore, TakesBatchesOfAnySize) {
  const auto device = OpenDevice();
  for (const int64_t record_bytes : {int64_t{4}, int64_t{3} << 20}) {
    const auto store = OpenStore(device.get(), -1, record_bytes);
    const int64_t n = record_bytes == 4 ? 140000 : 3;
    ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, n), 1)));
    ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(n - 2, n + 1), 2)));
    StoredRecords expected = Records(Range(0, n - 2), 1, record_bytes);
    const StoredRecords others = Records(Range(n - 2, n + 1), 2, record_bytes);
    expected.insert(others.begin(), others.end());
    EXPECT_TRUE(WalkStore(*store, INT64_MAX) == expected);
    const std::vector<int64_t> gone = Range(1, n + 1);
    ASSERT_TRUE(IsOk(store->Erase(gone.data(), n)));
    EXPECT_EQ(WalkStore(*store, 10), Records({0}, 1, record_bytes));
  }
}

TEST(HbmStore, KeepsItsSizeWhileKeysComeAndGo) {
  const auto device = OpenDevice();
  const auto store = OpenStore(device.get(), -1, 8);
  int64_t bytes = 0;
  for (int64_t round = 0; round < 40; ++round) {
    const std::vector<int64_t> keys = Range(round * 500, round * 500 + 500);
    ASSERT_TRUE(IsOk(PutRecords(store.get(), keys, 0)));
    ASSERT_TRUE(IsOk(store->Erase(keys.data(), 500)));
    if (round == 5) bytes = store->bytes();
  }
  EXPECT_EQ(store->bytes(), bytes);
  ASSERT_TRUE(IsOk(store->Clear()));
  EXPECT_LT(store->bytes(), bytes - 500 * 16);
}

TEST(HbmStore, KeepsAllRowsOfAStaticTable) {
  InAnyOrder([] {
    const auto device = OpenDevice();
    const auto store = OpenStore(device.get(), 300);
    EXPECT_TRUE(store->is_static());
    EXPECT_EQ(store->num_rows(), 300);
    EXPECT_EQ(store->records_view().num_rows, 300);
    EXPECT_EQ(store->index_view().num_buckets, 0u);
    ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 300), 1)));
    ASSERT_TRUE(IsOk(PutRecords(store.get(), {5, 299, 5, 0}, 2)));
    StoredRecords expected = Records(Range(0, 300), 1, kRecordBytes);
    for (const int64_t key : {5, 299, 0}) expected[key] = MakeRecord(key, 2, kRecordBytes);
    ExpectStored(*store, Range(-5, 305), expected);
    ExpectStored(*store, ExtremeKeys(), expected);
    for (const int64_t max_rows : {1, 7, 300, 1000}) {
      EXPECT_EQ(WalkStore(*store, max_rows), expected);
    }
    EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument,
                          "must be in [0, 300). Received: keys[1] = 300",
                          PutRecords(store.get(), {1, 300}, 3)));
    const std::vector<int64_t> keys = {-1, 300, 7};
    EXPECT_TRUE(IsOk(store->Erase(keys.data(), 3)));  // what stands above may cover a row here
    EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "keeps all", store->Clear()));
    DeviceArray<uint32_t> rows;
    EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "a call to add 3",
                          Create(store.get(), device.get(), keys, &rows)));
    EXPECT_EQ(WalkStore(*store, 100), expected);
    EXPECT_GE(store->bytes(), 300 * kStride);
    EXPECT_GT(store->memory_bytes(), 0);
  });
}

// Each thread has keys of its own, and all share some, of which every record is whole.
TEST(HbmStore, MayBeCalledFromSeveralThreads) {
  const auto device = OpenDevice();
  const auto store = OpenStore(device.get(), -1);
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 20), 0)));
  ThreadExecutor executor(3);
  executor.ParallelFor(3, 1, [&](int64_t thread, int64_t /*end*/) {
    for (int64_t version = 1; version <= 6; ++version) {
      std::vector<int64_t> own = Range(1000 * (thread + 1), 1000 * (thread + 1) + 30 * version);
      ASSERT_TRUE(IsOk(PutRecords(store.get(), own, version)));
      ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 20), version)));
      ExpectStored(*store, own, Records(own, version, kRecordBytes));
      std::string record(kRecordBytes, '\0');
      const int64_t key = 7;
      bool found = false;
      ASSERT_TRUE(IsOk(store->Get(&key, 1, record.data(), &found)));
      bool is_whole = false;
      for (int64_t any = 0; any <= 6; ++any) {
        is_whole = is_whole || record == MakeRecord(key, any, kRecordBytes);
      }
      EXPECT_TRUE(found && is_whole);
      EXPECT_GT(store->records_view().num_rows, 20);
      if (version % 2 == 0) {
        ASSERT_TRUE(IsOk(store->Erase(own.data(), static_cast<int64_t>(own.size()))));
      }
    }
  });
  EXPECT_EQ(WalkStore(*store, 10), Records(Range(0, 20), 6, kRecordBytes));
}

}  // namespace keras_sparse::hbm_store_test
