#include "ops/core/ids/id_grouper.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ops/core/base/hash.h"
#include "tests/ops/core/support/testing.h"

namespace keras_sparse::id_grouper_test {

std::vector<uint32_t> Occurrences(const IdGrouper& groups, int64_t u) {
  return {groups.occurrences(u), groups.occurrences(u) + groups.num_occurrences(u)};
}

std::vector<int64_t> UniqueIds(const IdGrouper& groups) {
  return {groups.unique_ids(), groups.unique_ids() + groups.num_unique()};
}

TEST(IdGrouper, ReportsThePositionsItIsGiven) {
  const std::vector<int64_t> ids = {5, 6, 5};
  const std::vector<uint32_t> positions = {10, 30, 4000000000u};
  IdGrouper groups;
  groups.Group(ids.data(), positions.data(), 3);
  EXPECT_EQ(Occurrences(groups, 0), (std::vector<uint32_t>{10, 4000000000u}));
  EXPECT_EQ(Occurrences(groups, 1), (std::vector<uint32_t>{30}));
}

// Which id each of `n` is, by its number.
std::vector<int64_t> IdsByNumber(const IdGrouper& groups, size_t n) {
  std::vector<int64_t> ids;
  for (size_t i = 0; i < n; ++i) ids.push_back(groups.unique_ids()[groups.numbers()[i]]);
  return ids;
}

TEST(IdGrouper, NumbersIdsBeforeTheyAreSorted) {
  const std::vector<int64_t> few = {9, 0, 9, 2, 0, 9};
  const std::vector<int64_t> many = RandomIds(5000, 0, 9999, 1);
  IdGrouper groups;
  for (const auto& [ids, rows] : {std::pair{few, 10}, {many, 10000}}) {
    for (const int64_t num_rows : {0, rows}) {
      groups.Number(ids.data(), static_cast<int64_t>(ids.size()), num_rows);
      EXPECT_EQ(groups.num_unique(), static_cast<int64_t>(std::set(ids.begin(), ids.end()).size()));
      EXPECT_EQ(IdsByNumber(groups, ids.size()), ids);
    }
  }
}

TEST(IdGrouper, NumbersRowsAtTheEdgesOfWordsOfBits) {
  const std::vector<int64_t> ids = {127, 63, 64, 0, 128, 191, 192, 64, 255, 0, 256, 1};
  std::vector<int64_t> rising(ids);
  std::sort(rising.begin(), rising.end());
  rising.erase(std::unique(rising.begin(), rising.end()), rising.end());
  std::vector<int64_t> padded(ids);
  padded.resize(100, 0);
  IdGrouper groups;
  groups.Number(padded.data(), 100, 257);
  EXPECT_EQ(UniqueIds(groups), rising);
  EXPECT_EQ(IdsByNumber(groups, padded.size()), padded);
}

TEST(IdGrouper, GroupsNothingIntoNothing) {
  IdGrouper groups;
  groups.Group(nullptr, nullptr, 0);
  EXPECT_EQ(groups.num_unique(), 0);
}

TEST(IdGrouper, AgreesWithAMapHoweverOftenItIsUsed) {
  IdGrouper groups;
  for (const int64_t n : {1, 1000, 3, 20000, 16, 17}) {
    std::vector<int64_t> ids = RandomIds(n, -n / 3, n / 3, static_cast<uint64_t>(n));
    for (const int64_t key : ExtremeKeys()) ids.push_back(key);
    groups.Group(ids.data(), nullptr, static_cast<int64_t>(ids.size()));
    std::map<int64_t, std::vector<uint32_t>> reference;
    for (size_t i = 0; i < ids.size(); ++i) reference[ids[i]].push_back(static_cast<uint32_t>(i));
    ASSERT_EQ(groups.num_unique(), static_cast<int64_t>(reference.size()));
    uint32_t last_first = 0;
    for (int64_t u = 0; u < groups.num_unique(); ++u) {
      EXPECT_EQ(Occurrences(groups, u), reference[groups.unique_ids()[u]]);
      EXPECT_GE(groups.occurrences(u)[0], last_first);
      last_first = groups.occurrences(u)[0];
    }
  }
}

TEST(IdGrouper, PutsTheIdsOfFewRowsInOrder) {
  const std::vector<int64_t> ids = {9, 0, 9, 2, 0, 9};
  const std::vector<uint32_t> positions = {7, 7, 6, 5, 4, 3};
  IdGrouper groups;
  for (const int64_t num_rows : {10, 24}) {
    groups.Number(ids.data(), 6, num_rows);
    groups.Sort(positions.data());
    EXPECT_EQ(UniqueIds(groups), (std::vector<int64_t>{0, 2, 9}));
    EXPECT_EQ(Occurrences(groups, 0), (std::vector<uint32_t>{7, 4}));
    EXPECT_EQ(Occurrences(groups, 1), (std::vector<uint32_t>{5}));
    EXPECT_EQ(Occurrences(groups, 2), (std::vector<uint32_t>{7, 6, 3}));
  }
  // More rows than that are not walked over.
  groups.Number(ids.data(), 6, 25);
  groups.Sort(positions.data());
  EXPECT_EQ(UniqueIds(groups), (std::vector<int64_t>{9, 0, 2}));
}

TEST(IdGrouper, AgreesWithAMapHoweverManyRowsThereAre) {
  IdGrouper groups;
  for (const auto& [n, num_rows] :
       {std::pair{0, 5}, {1, 1}, {1, 4}, {1000, 3}, {1000, 4000}, {3, 1000000}, {20000, 10000}}) {
    const std::vector<int64_t> ids = RandomIds(n, 0, num_rows - 1, static_cast<uint64_t>(n));
    groups.Number(ids.data(), n, num_rows);
    groups.Sort(nullptr);
    std::map<int64_t, std::vector<uint32_t>> reference;
    for (size_t i = 0; i < ids.size(); ++i) reference[ids[i]].push_back(static_cast<uint32_t>(i));
    ASSERT_EQ(groups.num_unique(), static_cast<int64_t>(reference.size()));
    for (int64_t u = 0; u < groups.num_unique(); ++u) {
      EXPECT_EQ(Occurrences(groups, u), reference[groups.unique_ids()[u]]);
    }
  }
}

TEST(IdGrouper, TakesOneIdAMillionTimes) {
  const std::vector<int64_t> ids(1000000, -1);
  IdGrouper groups;
  groups.Group(ids.data(), nullptr, 1000000);
  ASSERT_EQ(groups.num_unique(), 1);
  ASSERT_EQ(groups.num_occurrences(0), 1000000);
  for (uint32_t i = 0; i < 1000000; ++i) ASSERT_EQ(groups.occurrences(0)[i], i);
}

TEST(IdGrouper, TellsIdsApartThatWereChosenToShareTheirHashBits) {
  std::vector<int64_t> ids;
  for (uint64_t i = 0; i < 2000; ++i) ids.push_back(KeyOfHash(i << 44));
  IdGrouper groups;
  groups.Group(ids.data(), nullptr, 2000);
  EXPECT_EQ(UniqueIds(groups), ids);
}

}  // namespace keras_sparse::id_grouper_test
