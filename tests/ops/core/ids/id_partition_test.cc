#include "ops/core/ids/id_partition.h"

#include <unordered_map>
#include <utility>

#include "tests/ops/core/support/thread_executor.h"

namespace keras_sparse::id_partition_test {

IdList ListOf(const std::vector<int64_t>& ids, int max_partition_bits) {
  return {ids.data(), static_cast<int64_t>(ids.size()), max_partition_bits};
}

// Every id once, at a position that is its own, equal ids in one part, positions rising.
void ExpectCut(const IdPartition& partition, const std::vector<int64_t>& ids) {
  std::unordered_map<int64_t, int64_t> part_of;
  std::vector<bool> seen(ids.size());
  for (int64_t part = 0; part < partition.num_parts(); ++part) {
    int64_t last = -1;
    for (int64_t i = 0; i < partition.num_ids(part); ++i) {
      const uint32_t* positions = partition.positions(part);
      const int64_t position = positions == nullptr ? i : positions[i];
      ASSERT_LT(last, position);
      last = position;
      const auto at = static_cast<size_t>(position);
      ASSERT_FALSE(seen[at]);
      seen[at] = true;
      ASSERT_EQ(partition.ids(part)[i], ids[at]);
      ASSERT_EQ(part_of.emplace(ids[at], part).first->second, part);
    }
  }
  for (const bool was_seen : seen) ASSERT_TRUE(was_seen);
}

TEST(PartitionIds, LeavesAFewIdsAsTheyAre) {
  const std::vector<int64_t> ids = {3, 1, 3};
  InlineExecutor executor;
  const auto partitions = PartitionIds({ListOf(ids, 6)}, &executor);
  ASSERT_EQ(partitions[0].num_parts(), 1);
  EXPECT_EQ(partitions[0].ids(0), ids.data());
  EXPECT_EQ(partitions[0].positions(0), nullptr);
}

TEST(PartitionIds, CutsSeveralListsEachOnItsOwn) {
  const std::vector<std::vector<int64_t>> lists = {RandomIds(100000, -1000, 1000, 1),
                                                   {},
                                                   RandomIds(5, 0, 3, 2),
                                                   RandomIds(40000, 0, 1 << 30, 3),
                                                   std::vector<int64_t>(70000, 42)};
  for (const int threads : {1, 3}) {
    ThreadExecutor executor(threads);
    std::vector<IdList> views;
    for (const auto& ids : lists) views.push_back(ListOf(ids, 6));
    const auto partitions = PartitionIds(views, &executor);
    ASSERT_EQ(partitions.size(), lists.size());
    for (size_t l = 0; l < lists.size(); ++l) ExpectCut(partitions[l], lists[l]);
  }
}

TEST(PartitionIds, LeavesTablesWholeWhereThereAreEnoughOfThem) {
  const std::vector<int64_t> ids = RandomIds(8192, 0, 1 << 30, 6);
  InlineExecutor executor;
  const auto many = PartitionIds(std::vector<IdList>(26, ListOf(ids, 6)), &executor);
  for (const IdPartition& partition : many) EXPECT_EQ(partition.num_parts(), 1);
  // Alone, the same ids give work to more than one thread.
  EXPECT_GE(PartitionIds({ListOf(ids, 6)}, &executor)[0].num_parts(), 4);
}

TEST(PartitionIds, CutsListsThatExceedTheCacheHoweverManyThereAre) {
  InlineExecutor executor;
  for (const auto& [num_ids, num_parts] : {std::pair{32768, 1}, {32769, 2}, {140000, 8}}) {
    const std::vector<int64_t> ids = RandomIds(num_ids, 0, 1 << 30, 6);
    const auto many = PartitionIds(std::vector<IdList>(26, ListOf(ids, 6)), &executor);
    for (const IdPartition& partition : many) EXPECT_EQ(partition.num_parts(), num_parts);
  }
}

TEST(PartitionIds, KnowsIdsByTheirNames) {
  InlineExecutor executor;
  for (const int64_t num_ids : {5, 100000}) {
    const std::vector<int64_t> ids = RandomIds(num_ids, 0, 1000, 7);
    std::vector<uint32_t> names;
    for (const int64_t id : ids) names.push_back(4000000000u + static_cast<uint32_t>(id));
    IdList list = ListOf(ids, 6);
    list.names = names.data();
    const IdPartition partition = std::move(PartitionIds({list}, &executor)[0]);
    EXPECT_EQ(partition.num_parts() > 1, num_ids > 5);
    for (int64_t part = 0; part < partition.num_parts(); ++part) {
      for (int64_t i = 0; i < partition.num_ids(part); ++i) {
        ASSERT_EQ(partition.positions(part)[i],
                  4000000000u + static_cast<uint32_t>(partition.ids(part)[i]));
      }
    }
  }
}

TEST(PartitionIds, UsesNoMorePartsThanTheTableAllows) {
  const std::vector<int64_t> ids = RandomIds(140000, 0, 1 << 30, 4);
  InlineExecutor executor;
  for (const int bits : {0, 1, 6, 16}) {
    const auto partitions = PartitionIds({ListOf(ids, bits)}, &executor);
    EXPECT_LE(partitions[0].num_parts(), int64_t{1} << bits);
    EXPECT_GE(partitions[0].num_parts(), bits == 0 ? 1 : 2);
    ExpectCut(partitions[0], ids);
  }
}

TEST(PartitionIds, CutsAlikeHoweverManyThreadsThereAre) {
  const std::vector<int64_t> ids = RandomIds(200000, 0, 50000, 5);
  InlineExecutor one;
  ThreadExecutor many(4);
  const auto expected = PartitionIds({ListOf(ids, 6)}, &one);
  const auto partitions = PartitionIds({ListOf(ids, 6)}, &many);
  ASSERT_EQ(partitions[0].num_parts(), expected[0].num_parts());
  for (int64_t part = 0; part < expected[0].num_parts(); ++part) {
    ASSERT_EQ(partitions[0].num_ids(part), expected[0].num_ids(part));
    for (int64_t i = 0; i < expected[0].num_ids(part); ++i) {
      ASSERT_EQ(partitions[0].positions(part)[i], expected[0].positions(part)[i]);
    }
  }
}

TEST(PartitionIds, PutsOneIdThatIsRepeatedAMillionTimesIntoOnePart) {
  const std::vector<int64_t> ids(1000000, -1);
  ThreadExecutor executor(2);
  const auto partitions = PartitionIds({ListOf(ids, 6)}, &executor);
  int64_t parts_in_use = 0;
  for (int64_t part = 0; part < partitions[0].num_parts(); ++part) {
    parts_in_use += partitions[0].num_ids(part) > 0;
  }
  EXPECT_EQ(parts_in_use, 1);
  ExpectCut(partitions[0], ids);
}

TEST(PartitionIds, TakesNoListsAtAll) {
  InlineExecutor executor;
  EXPECT_TRUE(PartitionIds({}, &executor).empty());
}

}  // namespace keras_sparse::id_partition_test
