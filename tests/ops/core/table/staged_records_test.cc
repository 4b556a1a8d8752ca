#include "ops/core/table/staged_records.h"

#include <numeric>

#include "ops/core/stores/dram_store.h"
#include "tests/ops/core/support/testing.h"

namespace keras_sparse::staged_records_test {

using Batch = std::shared_ptr<const RecordBatch>;

// A batch of records of one number, that of their key.
Batch BatchOf(const std::vector<int64_t>& keys, int64_t record_floats = 1,
              const std::vector<int64_t>& unknown = {}) {
  auto store = std::make_shared<DramStore>(4 * record_floats);
  std::vector<float> records;
  for (const int64_t key : keys) records.resize(records.size() + record_floats, float(key));
  EXPECT_TRUE(IsOk(store->Put(keys.data(), static_cast<int64_t>(keys.size()),
                              reinterpret_cast<const char*>(records.data()))));
  std::vector<int64_t> asked(keys);
  asked.insert(asked.end(), unknown.begin(), unknown.end());
  Batch batch;
  EXPECT_TRUE(IsOk(RecordBatch::Read({store}, asked, &batch)));
  return batch;
}

std::vector<int64_t> Range(int64_t begin, int64_t end) {
  std::vector<int64_t> keys(static_cast<size_t>(end - begin));
  std::iota(keys.begin(), keys.end(), begin);
  return keys;
}

// Which of the keys are staged; each must have its record.
std::vector<int64_t> Staged(const StagedRecords& staged, const std::vector<int64_t>& keys) {
  StagedRecords::Batches batches;
  const std::vector<const float*> records = staged.Find(keys, &batches);
  std::vector<int64_t> found;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (records[i] == nullptr) continue;
    EXPECT_EQ(*records[i], float(keys[i]));
    found.push_back(keys[i]);
  }
  return found;
}

void Drop(StagedRecords* staged, const std::vector<int64_t>& keys) {
  staged->Drop(keys.data(), static_cast<int64_t>(keys.size()));
}

TEST(RecordBatch, TakesNoMemoryForMostKeysThatAreNowhere) {
  const Batch batch = BatchOf(Range(0, 100), 16, Range(1000, 2000));
  EXPECT_EQ(batch->keys(), Range(0, 100));
  EXPECT_LT(batch->bytes(), 100 * 100);
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(*batch->record(i), float(i));
}

TEST(RecordBatch, AsksTheNextStoreForWhatOneDoesNotHave) {
  auto upper = std::make_shared<DramStore>(4);
  auto lower = std::make_shared<DramStore>(4);
  const std::vector<int64_t> keys = {1, 2, 3};
  const std::vector<float> records = {10, 20, 30};
  ASSERT_TRUE(IsOk(lower->Put(keys.data(), 3, reinterpret_cast<const char*>(records.data()))));
  const float newer = 21;
  ASSERT_TRUE(IsOk(upper->Put(&keys[1], 1, reinterpret_cast<const char*>(&newer))));
  Batch batch;
  ASSERT_TRUE(IsOk(RecordBatch::Read({upper, lower}, {3, 2, 7}, &batch)));
  EXPECT_EQ(batch->keys(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(*batch->record(0), 21);
  EXPECT_EQ(*batch->record(1), 30);
}

TEST(StagedRecords, DropsTheKeysItIsToldAndABatchWithItsLast) {
  const auto owner = std::make_shared<StagedRecords>();
  StagedRecords& staged = *owner;
  staged.Add(BatchOf({1, 2, 3}));
  staged.Add(BatchOf({3, 4}));
  EXPECT_EQ(Staged(staged, {0, 1, 2, 3, 4}), (std::vector<int64_t>{1, 2, 3, 4}));
  Drop(&staged, {2, 4, 9});
  EXPECT_EQ(Staged(staged, {0, 1, 2, 3, 4}), (std::vector<int64_t>{1, 3}));
  const int64_t bytes = staged.bytes();
  Drop(&staged, {1, 3});
  EXPECT_EQ(Staged(staged, {1, 2, 3, 4}), std::vector<int64_t>());
  EXPECT_LT(staged.bytes(), bytes);
  staged.Add(BatchOf({1, 5}));
  EXPECT_EQ(Staged(staged, {1, 2, 5}), (std::vector<int64_t>{1, 5}));
  staged.Clear();
  EXPECT_EQ(Staged(staged, {1, 2, 5}), std::vector<int64_t>());
  EXPECT_EQ(staged.bytes(), 0);
}

TEST(StagedRecords, KeepsRecordsForWhoHasFoundThem) {
  const auto owner = std::make_shared<StagedRecords>();
  StagedRecords& staged = *owner;
  staged.Add(BatchOf({7}));
  StagedRecords::Batches batches;
  const std::vector<const float*> records = staged.Find({7}, &batches);
  Drop(&staged, {7});
  EXPECT_EQ(*records[0], 7);
}

TEST(StagedRecords, KeepsWhatIsHeldAndAsMuchElseAsItsBytesAllow) {
  constexpr int64_t kFloats = int64_t{10} << 18;  // 10 MiB a record
  const auto owner = std::make_shared<StagedRecords>();
  StagedRecords& staged = *owner;
  const StagedRecords::Reading reading(&staged);
  StagedRecords::Hold hold = staged.Add(BatchOf({-1, -2, -3}, kFloats), reading);
  for (int64_t key = 0; key < 10; ++key) staged.Add(BatchOf({key}, kFloats));
  EXPECT_EQ(Staged(staged, {-3, -2, -1, 0, 1, 2, 3, 4, 5, 9}),
            (std::vector<int64_t>{-3, -2, -1, 4, 5, 9}));
  EXPECT_GE(staged.bytes(), 9 * 4 * kFloats);
  hold = nullptr;
  EXPECT_EQ(Staged(staged, {-3, -2, -1, 0, 4, 6, 7, 8, 9}),
            (std::vector<int64_t>{-3, -2, -1, 7, 8, 9}))
      << "what was held goes last";
}

TEST(StagedRecords, AreNotNeededByWhoHoldsTheirBatch) {
  auto staged = std::make_shared<StagedRecords>();
  StagedRecords::Hold hold;
  {
    const StagedRecords::Reading reading(staged.get());
    hold = staged->Add(BatchOf({1}), reading);
  }
  staged = nullptr;
  hold = nullptr;
}

TEST(StagedRecords, LeaveOutWhatHasChangedWhileItWasRead) {
  const auto owner = std::make_shared<StagedRecords>();
  StagedRecords& staged = *owner;
  StagedRecords::Hold first;
  StagedRecords::Hold second;
  {
    const StagedRecords::Reading early(&staged);
    Drop(&staged, {1});
    const StagedRecords::Reading late(&staged);
    Drop(&staged, {2, 3});
    first = staged.Add(BatchOf({3, 4}), late);
    second = staged.Add(BatchOf({1, 2, 5}), early);
  }
  EXPECT_EQ(Staged(staged, {1, 2, 3, 4, 5}), (std::vector<int64_t>{4, 5}));
  {
    const StagedRecords::Reading reading(&staged);
    EXPECT_NE(staged.Add(BatchOf({1}), reading), nullptr) << "as it was dropped before";
    staged.Clear();
    EXPECT_EQ(staged.Add(BatchOf({6}), reading), nullptr);
  }
  EXPECT_EQ(Staged(staged, {1, 4, 5, 6}), std::vector<int64_t>());
}

}  // namespace keras_sparse::staged_records_test
