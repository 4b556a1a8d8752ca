#include "ops/core/staged_records.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "tests/ops/core/testing.h"

namespace keras_sparse {
namespace {

TEST(RecordBatch, FitsWithoutThePlacesThatItDidNotUse) {
  std::unique_ptr<char[]> records(new char[1000 * 8]);
  auto batch = std::make_shared<RecordBatch>(8, 1000, std::move(records));
  for (size_t place = 0; place < 1000; place += 7) {
    const auto key = static_cast<int64_t>(place) * 3 - 500;
    std::memcpy(batch->Place(place), &key, 8);
    batch->Add(key, place);
  }
  const int64_t bytes = batch->bytes();
  ASSERT_TRUE(IsOk(batch->Fit(&batch)));  // into itself
  EXPECT_EQ(batch->size(), 143);
  EXPECT_LT(batch->bytes(), bytes / 2);
  for (int64_t place = 0; place < 1000; ++place) {
    const int64_t key = place * 3 - 500;
    const float* record = batch->Find(key);
    ASSERT_EQ(record != nullptr, place % 7 == 0);
    EXPECT_TRUE(record == nullptr || std::memcmp(record, &key, 8) == 0);
  }
}

TEST(StagedRecords, KeepsAsManyBatchesAsItsBytesAllow) {
  StagedRecords staged;
  for (int i = 0; i < 3; ++i) {
    std::unique_ptr<char[]> records(new char[40 << 20]);
    staged.Add(std::make_shared<RecordBatch>(1024, 40 << 10, std::move(records)));
    EXPECT_GE(staged.bytes(), 40 << 20) << "places without a record are memory too";
    EXPECT_EQ(staged.batches().size(), 1u);
  }
  staged.Clear();
  EXPECT_EQ(staged.bytes(), 0);
}

}  // namespace
}  // namespace keras_sparse
