#include "ops/core/exchange/packed_slices.h"

#include "tests/ops/core/support/testing.h"

namespace keras_sparse::packed_slices_test {

// What a rank has of one table.
struct Rows {
  std::vector<int64_t> ids;
  std::vector<float> values;
};

std::vector<int32_t> Pack(const std::vector<Rows>& tables, const std::vector<int64_t>& widths,
                          float scale = 1) {
  std::vector<RowSlices> slices;
  for (size_t t = 0; t < tables.size(); ++t) {
    slices.push_back({tables[t].ids.data(), tables[t].values.data(),
                      static_cast<int64_t>(tables[t].ids.size()), widths[t]});
  }
  int64_t num_words = 0;
  EXPECT_TRUE(IsOk(CountPackedWords(slices, &num_words)));
  std::vector<int32_t> words(static_cast<size_t>(num_words));
  PackSlices(slices, scale, words.data());
  return words;
}

std::vector<int32_t> operator+(std::vector<int32_t> left, const std::vector<int32_t>& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

Status Open(const std::vector<int32_t>& words, const std::vector<int64_t>& widths,
            int64_t num_ranks, PackedSlices* slices) {
  return PackedSlices::Open(words.data(), static_cast<int64_t>(words.size()), widths, num_ranks,
                            slices);
}

Rows Copy(const PackedSlices& slices, size_t table, int64_t width) {
  Rows rows;
  rows.ids.resize(static_cast<size_t>(slices.num_ids(table)));
  rows.values.resize(rows.ids.size() * static_cast<size_t>(width));
  slices.Copy(table, rows.ids.data(), rows.values.data());
  return rows;
}

Status OpenAnything(const std::vector<int32_t>& words, const std::vector<int64_t>& widths,
                    int64_t num_ranks) {
  PackedSlices slices;
  return Open(words, widths, num_ranks, &slices);
}

TEST(PackedSlices, HasTheLayoutOfItsHeader) {
  EXPECT_EQ(Pack({{{7}, {0.0f}}, {{}, {}}}, {1, 3}), (std::vector<int32_t>{2, 1, 0, 7, 0, 0}));
}

TEST(PackedSlices, GivesWhatRanksHaveInTheirOrder) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  const std::vector<int64_t> widths = {2, 1};
  const std::vector<int32_t> words = Pack({{{kMost, -1}, {1, 2, 3, 4}}, {{}, {}}}, widths) +
                                     Pack({{{}, {}}, {{5}, {6}}}, widths) +
                                     Pack({{{kLeast}, {7, 8}}, {{5, 0}, {9, 10}}}, widths, 0.5f);
  PackedSlices slices;
  ASSERT_TRUE(IsOk(Open(words, widths, 3, &slices)));
  const Rows first = Copy(slices, 0, 2);
  EXPECT_EQ(first.ids, (std::vector<int64_t>{kMost, -1, kLeast}));
  EXPECT_EQ(first.values, (std::vector<float>{1, 2, 3, 4, 3.5f, 4}));
  const Rows second = Copy(slices, 1, 1);
  EXPECT_EQ(second.ids, (std::vector<int64_t>{5, 5, 0}));
  EXPECT_EQ(second.values, (std::vector<float>{6, 4.5f, 5}));
}

TEST(PackedSlices, KeepsValuesThatAreNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {std::numeric_limits<float>::quiet_NaN(), -infinity, -0.0f};
  PackedSlices slices;
  const std::vector<int32_t> words = Pack({{{4}, values}}, {3});
  ASSERT_TRUE(IsOk(Open(words, {3}, 1, &slices)));
  EXPECT_EQ(Bits(Copy(slices, 0, 3).values), Bits(values));
}

TEST(PackedSlices, RefusesOtherNumbersOfTablesAndRanks) {
  const std::vector<int32_t> words = Pack({{{4}, {1}}, {{5}, {2}}}, {1, 1});
  const auto refuses = [&](const std::vector<int64_t>& widths, int64_t ranks,
                           const std::string& with) {
    return FailsWith(StatusCode::kInvalidArgument, with, OpenAnything(words, widths, ranks));
  };
  EXPECT_TRUE(refuses({1}, 1,
                      "must be of 1 tables; give all ranks the same model. Received: "
                      "rank 0 with 2 tables"));
  EXPECT_TRUE(refuses({1, 1}, 2, "Received: rank 1 with 0 words"));
  EXPECT_TRUE(refuses({1, 1}, 0, "end with those of the last rank"));
  EXPECT_TRUE(refuses({2, 1}, 1, "have a row of 1 values for each id"));
}

TEST(PackedSlices, RefusesEveryShorterAndLongerBuffer) {
  const std::vector<int32_t> words = Pack({{{4, 9}, {1, 2}}, {{}, {}}}, {1, 7}) +
                                     Pack({{{}, {}}, {{1}, {1, 2, 3, 4, 5, 6, 7}}}, {1, 7});
  EXPECT_TRUE(IsOk(OpenAnything(words, {1, 7}, 2)));
  for (size_t n = 0; n < words.size(); ++n) {
    const std::vector<int32_t> shorter(words.begin(),
                                       words.begin() + static_cast<std::ptrdiff_t>(n));
    EXPECT_FALSE(OpenAnything(shorter, {1, 7}, 2).ok()) << n;
  }
  EXPECT_FALSE(OpenAnything(words + std::vector<int32_t>{0}, {1, 7}, 2).ok());
}

TEST(PackedSlices, RefusesCountsThatAreNone) {
  for (const int32_t count :
       {-1, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max(), 2}) {
    const std::vector<int32_t> words = {1, count, 0, 0, 0};
    EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, std::to_string(count) + " ids of table 0",
                          OpenAnything(words, {1}, 1)))
        << count;
    EXPECT_FALSE(OpenAnything(words, {std::numeric_limits<int64_t>::max() - 2}, 1).ok());
  }
}

TEST(PackedSlices, ATableHasToBeCountedInAWord) {
  int64_t num_words = 0;
  EXPECT_TRUE(FailsWith(
      StatusCode::kResourceExhausted, "table 1 with 2147483648",
      CountPackedWords({{nullptr, nullptr, 0, 1}, {nullptr, nullptr, int64_t{1} << 31, 1}},
                       &num_words)));
}

}  // namespace keras_sparse::packed_slices_test
