#include "ops/core/ids/id_columns.h"

#include <cstdint>
#include <memory>

#include "ops/core/base/cache_line.h"
#include "tests/ops/core/support/thread_executor.h"

namespace keras_sparse::id_columns_test {

constexpr int64_t kUntouched = -77;

// Every bit of an id, with a sign, by its place.
template <typename Id>
Id IdAt(int64_t row, int64_t column) {
  const auto place = static_cast<uint64_t>(1000 * row + column + 1);
  return static_cast<Id>(place * 0x9e3779b97f4a7c15ULL);
}

template <typename Id>
void ExpectColumns(int64_t num_rows, int64_t num_columns, Executor* executor) {
  std::vector<Id> matrix;
  for (int64_t r = 0; r < num_rows; ++r) {
    for (int64_t c = 0; c < num_columns; ++c) matrix.push_back(IdAt<Id>(r, c));
  }
  const int64_t stride = IdColumnStride(num_rows);
  ASSERT_GE(stride, num_rows);
  const auto num_ids = static_cast<size_t>(num_columns * stride);
  std::vector<int64_t> memory(num_ids + kCacheLineBytes / sizeof(int64_t), kUntouched);
  void* aligned = memory.data();
  size_t space = memory.size() * sizeof(int64_t);
  ASSERT_NE(std::align(kCacheLineBytes, num_ids * sizeof(int64_t), aligned, space), nullptr);
  const auto* columns = static_cast<int64_t*>(aligned);
  SplitIdColumns(matrix.data(), num_rows, num_columns, static_cast<int64_t*>(aligned), executor);
  for (int64_t c = 0; c < num_columns; ++c) {
    for (int64_t r = 0; r < stride; ++r) {
      const int64_t expected = r < num_rows ? IdAt<Id>(r, c) : kUntouched;
      ASSERT_EQ(columns[c * stride + r], expected) << r << ", " << c;
    }
  }
}

TEST(SplitIdColumns, GivesEachColumnAsItIs) {
  for (const int64_t num_rows : {0, 1, 7, 8, 9, 63, 64, 65, 200}) {
    for (const int64_t num_columns : {1, 2, 7, 8, 9, 16, 26}) {
      InlineExecutor executor;
      ExpectColumns<int64_t>(num_rows, num_columns, &executor);
      ExpectColumns<int32_t>(num_rows, num_columns, &executor);
    }
  }
}

TEST(SplitIdColumns, DividesRowsAmongThreads) {
  for (const int threads : {2, 3}) {
    ThreadExecutor executor(threads);
    ExpectColumns<int64_t>(1027, 9, &executor);
    ExpectColumns<int32_t>(1027, 9, &executor);
  }
}

TEST(SplitIdColumns, WritesLargeColumnsPastTheCaches) {
  for (const int threads : {1, 3}) {
    ThreadExecutor executor(threads);
    ExpectColumns<int64_t>(8195, 26, &executor);
    ExpectColumns<int32_t>(8195, 26, &executor);
  }
}

TEST(SplitIdColumns, StartsEachColumnAtACacheLineOfAnotherSet) {
  for (const int64_t num_rows : {0, 1, 8, 9, 4096, 8192}) {
    const int64_t bytes = IdColumnStride(num_rows) * static_cast<int64_t>(sizeof(int64_t));
    EXPECT_EQ(bytes % kCacheLineBytes, 0);
    EXPECT_EQ(bytes / kCacheLineBytes % 2, 1);
    EXPECT_LE(bytes, 8 * num_rows + 2 * kCacheLineBytes);
  }
}

}  // namespace keras_sparse::id_columns_test
