#include "ops/core/record/record_slabs.h"

#include <algorithm>

#include "ops/core/base/arena.h"
#include "tests/ops/core/support/testing.h"

namespace keras_sparse::record_slabs_test {

uint32_t Allocate(RecordSlabs* storage) {
  uint32_t row = 0;
  EXPECT_TRUE(IsOk(storage->Allocate(&row)));
  return row;
}

TEST(RecordSlabs, KeepsRecordsApartAndWhereTheyAre) {
  for (const int64_t floats : {1, 3, 33}) {
    Arena arena;
    RecordSlabs storage(&arena, 4 * floats);
    std::vector<float*> records;
    for (uint32_t row = 0; row < 20000; ++row) {
      ASSERT_EQ(Allocate(&storage), row);
      records.push_back(storage.Record(row));
      std::fill_n(records.back(), floats, static_cast<float>(row));
    }
    EXPECT_EQ(storage.size(), 20000);
    for (uint32_t row = 0; row < 20000; ++row) {
      ASSERT_EQ(storage.Record(row), records[row]);
      for (int64_t i = 0; i < floats; ++i) ASSERT_EQ(records[row][i], static_cast<float>(row));
    }
    std::sort(records.begin(), records.end());
    for (size_t i = 0; i + 1 < records.size(); ++i) ASSERT_LE(records[i] + floats, records[i + 1]);
  }
}

TEST(RecordSlabs, GivesFreedRowsOutAgain) {
  Arena arena;
  RecordSlabs storage(&arena, 8);
  for (int i = 0; i < 10; ++i) (void)Allocate(&storage);
  storage.Free(3);
  storage.Free(7);
  EXPECT_EQ(storage.size(), 8);
  std::vector<uint32_t> rows = {Allocate(&storage), Allocate(&storage)};
  std::sort(rows.begin(), rows.end());
  EXPECT_EQ(rows, (std::vector<uint32_t>{3, 7}));
  EXPECT_EQ(Allocate(&storage), 10u);
  EXPECT_EQ(storage.size(), 11);
}

TEST(RecordSlabs, LeavesAtMostANinthOfItsRoomUnused) {
  Arena arena;
  RecordSlabs storage(&arena, 64);
  for (int64_t rows = 1; rows < 50000; ++rows) {
    (void)Allocate(&storage);
    // An eighth more than is used, which is a ninth of all; of 32 rows more where there are few.
    ASSERT_LE(arena.bytes(), (rows + (rows + 32) / 8) * 64) << "at " << rows;
  }
}

TEST(RecordSlabs, SharesItsArenaWithOtherStorages) {
  Arena arena;
  RecordSlabs first(&arena, 12);
  RecordSlabs second(&arena, 20);
  for (uint32_t row = 0; row < 1000; ++row) {
    std::fill_n(first.Record(Allocate(&first)), 3, 1.0f);
    std::fill_n(second.Record(Allocate(&second)), 5, 2.0f);
  }
  for (uint32_t row = 0; row < 1000; ++row) {
    for (int i = 0; i < 3; ++i) ASSERT_EQ(first.Record(row)[i], 1);
    for (int i = 0; i < 5; ++i) ASSERT_EQ(second.Record(row)[i], 2);
  }
}

TEST(RecordSlabs, IsAsBeforeAfterMemoryRanOut) {
  Arena arena;
  RecordSlabs storage(&arena, int64_t{1} << 58);
  uint32_t row = 0;
  EXPECT_TRUE(
      FailsWith(StatusCode::kResourceExhausted, "must fit the machine", storage.Allocate(&row)));
  EXPECT_EQ(storage.size(), 0);
}

}  // namespace keras_sparse::record_slabs_test
