// A policy that makes room: the rows that go are the first ones of all, over any tiers.
#include "ops/core/table/eviction_queue.h"

#include <tuple>

#include "ops/core/operations/check_room.h"
#include "tests/ops/core/support/eviction_testing.h"
#include "tests/ops/core/support/filter_testing.h"
#include "tests/ops/core/support/hbm_stacks.h"
#include "tests/ops/core/support/table_access.h"
#include "tests/ops/core/support/thread_executor.h"

namespace keras_sparse::eviction_queue_test {

using Row = std::vector<float>;
using Keys = std::vector<int64_t>;

// What a table does, in a map that is searched anew each time.
struct Reference {
  int64_t max_rows;
  bool by_frequency = false;
  int64_t step = 0;
  std::map<int64_t, int64_t> steps = {};         // of the last gradient of each row
  std::map<int64_t, uint32_t> frequencies = {};  // the steps in which it had one

  // The keys that go first.
  Keys First(int64_t n, const std::set<int64_t>& kept) const {
    std::vector<std::tuple<uint32_t, int64_t, int64_t>> order;
    for (const auto& [key, at] : steps) {
      if (kept.count(key) > 0) continue;
      order.emplace_back(by_frequency ? frequencies.at(key) : 0, at, key);
    }
    std::sort(order.begin(), order.end());
    Keys keys;
    for (int64_t i = 0; i < n; ++i) keys.push_back(std::get<2>(order[static_cast<size_t>(i)]));
    return keys;
  }
  void Erase(const Keys& keys) {
    for (const int64_t key : keys) {
      steps.erase(key);
      frequencies.erase(key);
    }
  }
  // Whether there is room for these keys.
  bool Step(const Keys& ids) {
    const std::set<int64_t> kept(ids.begin(), ids.end());
    if (static_cast<int64_t>(kept.size()) > max_rows) return false;
    int64_t num_new = 0;
    for (const int64_t key : kept) num_new += steps.count(key) == 0 ? 1 : 0;
    const int64_t num_leaving = static_cast<int64_t>(steps.size()) + num_new - max_rows;
    if (num_new > 0) Erase(First(num_leaving, kept));
    ++step;
    for (const int64_t key : kept) {
      steps[key] = step;
      ++frequencies[key];
    }
    return true;
  }
  std::map<int64_t, uint32_t> Ages() const {
    std::map<int64_t, uint32_t> ages;
    for (const auto& [key, at] : steps) ages[key] = static_cast<uint32_t>(step - at);
    return ages;
  }
};

std::unique_ptr<EmbeddingTable> OpenBy(const EvictionOptions& policy, int64_t max_rows,
                                       const StorageOptions& storage = {}) {
  TableOptions options = Counting(Aging(Dynamic(1)));
  options.storage = storage;
  auto table = OpenWithRule(options, SgdRule());
  EXPECT_TRUE(IsOk(SetRowLimit(table.get(), max_rows, MakePolicy(policy))));
  return table;
}

std::unique_ptr<EmbeddingTable> OpenLru(int64_t max_rows) { return OpenBy(Lru(), max_rows); }

Row Ones(const Keys& keys) { return Row(keys.size(), 1); }

class EvictionQueueOver : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  EvictionOptions Policy() const { return {std::get<0>(GetParam()), {}}; }
  // So small that rows go down in each step, or stay where they are.
  StorageOptions Storage() const {
    const std::string name = std::get<1>(GetParam());
    if (name == "memory") return {};
    StorageOptions on_gpu;
    if (name == "hbm") on_gpu.device = OpenDevice();
    if (name == "hbm") return on_gpu;
    if (name == "hbm_ssdhash") return HbmOver({"ssdhash"}, 1000, 0, folder_ / "rows");
    return {{name}, {4000, int64_t{1} << 30}, folder_ / "rows", "LFU"};
  }
  const TempFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(PoliciesAndTiers, EvictionQueueOver,
                         ::testing::Combine(::testing::Values("lru", "lfu"),
                                            ::testing::Values("memory", "dram", "ssdhash", "hbm",
                                                              "hbm_ssdhash")),
                         [](const auto& param) {
                           return std::string(std::get<0>(param.param)) + "_" +
                                  std::get<1>(param.param);
                         });

TEST_P(EvictionQueueOver, LetsGoWhatAPlainSearchFinds) {
  constexpr int64_t kMaxRows = 300;
  const auto table = OpenBy(Policy(), kMaxRows, Storage());
  Reference reference{kMaxRows, Policy().policy == "lfu"};
  ThreadExecutor executor(3);
  std::mt19937 random(5);
  int num_refused = 0;
  for (int round = 0; round < 120; ++round) {
    Keys ids(random() % (round % 40 == 39 ? 700 : 100));
    // Keys that come often, and others of any kind.
    for (int64_t& id : ids) {
      const uint32_t num_keys = random() % 3 == 0 ? 100000 : 200;
      id = static_cast<int64_t>(random() % num_keys) - 100;
    }
    const Status status = Subtract(table.get(), ids, Ones(ids), &executor);
    const bool has_room = reference.Step(ids);
    ASSERT_EQ(status.ok(), has_room) << status.message();
    if (!has_room) ++num_refused;
    ASSERT_EQ(Ages(*table), reference.Ages()) << round;
    ASSERT_EQ(Frequencies(*table), reference.frequencies) << round;
    if (round % 23 == 22) {
      const Keys gone = reference.First(10, {});
      ASSERT_TRUE(IsOk(EraseRows(table.get(), gone.data(), 10, &executor)));
      reference.Erase(gone);
    }
    if (round % 19 == 18) {  // older ones than there are, and too many
      Keys keys;
      std::vector<uint32_t> ages;
      std::vector<uint32_t> frequencies;
      for (int64_t i = 0; i < 150; ++i) {
        keys.push_back(-1000 - round * 200 - i);
        ages.push_back(static_cast<uint32_t>(random() % 500));
        frequencies.push_back(static_cast<uint32_t>(random() % 5));
        reference.steps[keys.back()] = reference.step - int64_t{ages.back()};
        reference.frequencies[keys.back()] = frequencies.back();
      }
      ASSERT_TRUE(IsOk(ImportRows(table.get(), keys.data(), 150, Ones(keys).data(), 1, &executor,
                                  ages.data(), frequencies.data())));
      if (round % 2 == 0) {
        const int64_t excess = std::max<int64_t>(0, NumRowsOf(*table) - kMaxRows);
        reference.Erase(reference.First(excess, {}));
        ASSERT_EQ(Evict(table.get(), Policy(), &executor), excess);
        ASSERT_EQ(Ages(*table), reference.Ages()) << round;
      }
    }
  }
  EXPECT_GT(num_refused, 0);
  EXPECT_GT(StatsOf(*table).evicted_rows, 500);
}

TEST(EvictionQueue, LetsNoRowGoThatTheStepIsFor) {
  const auto table = OpenLru(3);
  ASSERT_TRUE(IsOk(Subtract(table.get(), {1, 2, 3}, {1, 1, 1})));
  const auto before = ExportAll(*table);
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "policy lets 0 go, and 2 keys are new",
                        Subtract(table.get(), {2, 3, 4, 5}, {1, 1, 1, 1})));
  EXPECT_EQ(ExportAll(*table), before);
  ASSERT_TRUE(IsOk(Subtract(table.get(), {1, 3, 4}, {1, 1, 1})));
  EXPECT_EQ(Ages(*table).count(2), 0u);
}

TEST(EvictionQueue, IsLookedAtWithoutAChange) {
  const auto table = OpenLru(2);
  ASSERT_TRUE(IsOk(Subtract(table.get(), {1, 2}, {1, 1})));
  const auto before = ExportAll(*table);
  for (const Keys& keys : {Keys{3, 4}, Keys{1, 3}, Keys{2, 3}}) {
    EXPECT_TRUE(IsOk(CheckRoom(table.get(), keys.data(), 2, Inline())));
    EXPECT_EQ(ExportAll(*table), before);
  }
  // What was found for 9 is no more true once 1 had a gradient.
  const Keys last = {9};
  EXPECT_TRUE(IsOk(CheckRoom(table.get(), last.data(), 1, Inline())));
  ASSERT_TRUE(IsOk(Subtract(table.get(), {1}, {1})));
  ASSERT_TRUE(IsOk(Subtract(table.get(), {9}, {1})));
  EXPECT_EQ(Ages(*table), (std::map<int64_t, uint32_t>{{1, 1}, {9, 0}}));
}

TEST(EvictionQueue, IsOneChangeWithTheUpdateThatItMakesRoomFor) {
  const auto table = OpenLru(2);
  ASSERT_TRUE(IsOk(Subtract(table.get(), {1, 2}, {1, 1})));
  for (const bool is_checked : {false, true}) {
    const int64_t version = VersionOf(*table);
    const Keys keys = {is_checked ? 4 : 3};
    if (is_checked) {
      EXPECT_TRUE(IsOk(CheckRoom(table.get(), keys.data(), 1, Inline())));
    }
    ASSERT_TRUE(IsOk(Subtract(table.get(), keys, {1})));
    EXPECT_EQ(VersionOf(*table), version + 1);
  }
  EXPECT_EQ(Ages(*table), (std::map<int64_t, uint32_t>{{3, 1}, {4, 0}}));
}

TEST(EvictionQueue, MakesRoomForKeysThatAFilterAdmitsAlone) {
  const auto table = OpenLru(2);
  ASSERT_TRUE(IsOk(SetFilter(table.get(), Counter(2))));
  ASSERT_TRUE(IsOk(Subtract(table.get(), {1, 2, 3, 4}, {1, 1, 1, 1})));
  ASSERT_TRUE(IsOk(Subtract(table.get(), {1, 2, 5, 6}, {1, 1, 1, 1})));
  EXPECT_EQ(Ages(*table), (std::map<int64_t, uint32_t>{{1, 0}, {2, 0}}));
  // One key gets a row, and the two that wait take none.
  ASSERT_TRUE(IsOk(Subtract(table.get(), {2, 3, 7, 8}, {1, 1, 1, 1})));
  EXPECT_EQ(Ages(*table), (std::map<int64_t, uint32_t>{{2, 0}, {3, 0}}));
}

// A filter whose keys share counters admits some that it did not foresee.
TEST(EvictionQueue, KnowsOfNewRowsWhateverFilterHasAdmittedThem) {
  for (const FilterOptions& filter : {Counter(2), Cbf(2, 20, 0.5, 16), Probability(0.4)}) {
    const auto table = OpenBy(Lfu(), 60);
    ASSERT_TRUE(IsOk(SetFilter(table.get(), filter)));
    std::mt19937 random(7);
    int64_t num_gone = 0;
    std::map<int64_t, uint32_t> before;
    std::map<int64_t, uint32_t> ages;
    for (int round = 0; round < 250; ++round) {
      Keys ids(random() % 25);
      for (int64_t& id : ids) {
        const uint32_t num_keys = random() % 2 == 0 ? 3000 : 40;
        id = static_cast<int64_t>(random() % num_keys);
      }
      ASSERT_TRUE(IsOk(Subtract(table.get(), ids, Ones(ids))));
      const std::map<int64_t, uint32_t> after = Frequencies(*table);
      // All that have gone go before all that could have and have not.
      std::vector<std::tuple<uint32_t, int64_t, int64_t>> gone;
      std::vector<std::tuple<uint32_t, int64_t, int64_t>> stayed;
      for (const auto& [key, frequency] : before) {
        if (std::count(ids.begin(), ids.end(), key) > 0) continue;
        (after.count(key) == 0 ? gone : stayed).emplace_back(frequency, -int64_t{ages[key]}, key);
      }
      std::sort(gone.begin(), gone.end());
      std::sort(stayed.begin(), stayed.end());
      num_gone += static_cast<int64_t>(gone.size());
      if (!gone.empty() && !stayed.empty()) {
        ASSERT_LT(gone.back(), stayed.front()) << filter.filter << ", " << round;
      }
      before = after;
      ages = Ages(*table);
    }
    EXPECT_GT(num_gone, 100) << filter.filter;
  }
}

// Few keys, so that they come again soon, and many that go at once.
TEST(EvictionQueue, IsThatOfAPlainSearchWhereKeysComeAgain) {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    std::mt19937 random(seed);
    const auto max_rows = static_cast<int64_t>(4 + random() % 12);
    const auto table = OpenBy(Lfu(), max_rows);
    Reference reference{max_rows, true};
    for (int round = 0; round < 40; ++round) {
      Keys ids(random() % static_cast<uint32_t>(max_rows + 1));
      for (int64_t& id : ids) id = static_cast<int64_t>(random() % (3 * max_rows));
      ASSERT_TRUE(IsOk(Subtract(table.get(), ids, Ones(ids))));
      ASSERT_TRUE(reference.Step(ids));
      ASSERT_EQ(Frequencies(*table), reference.frequencies) << seed << ", " << round;
    }
  }
}

TEST(EvictionQueue, GivesTheRowsBeyondTheLimit) {
  const auto table = OpenLru(2);
  const Keys keys = {4, 5, 6, 7};
  const std::vector<uint32_t> ages = {3, 9, 9, 1};
  const Row rows = {1, 2, 3, 4};
  ASSERT_TRUE(IsOk(ImportRows(table.get(), keys.data(), 4, rows.data(), 1, Inline(), ages.data())));
  ExportedRows gone;
  int64_t num_evicted = 0;
  ASSERT_TRUE(IsOk(EvictRows(table.get(), *MakePolicy(Lru()), Inline(), &num_evicted, &gone)));
  EXPECT_EQ(num_evicted, 2);
  EXPECT_EQ(gone.keys, Keys({5, 6}));
  EXPECT_EQ(gone.records, Row({2, 3}));
  EXPECT_EQ(Evict(table.get(), Lru()), 0);
  const auto unlimited = OpenWithRule(Aging(Dynamic(1)), SgdRule());
  ASSERT_TRUE(IsOk(Subtract(unlimited.get(), {1}, {1})));
  EXPECT_EQ(Evict(unlimited.get(), Lru()), 0);
  EXPECT_EQ(SetRowLimit(OpenWithRule(Dynamic(1), SgdRule()).get(), 1, MakePolicy(Lru())).code(),
            StatusCode::kFailedPrecondition);
}

}  // namespace keras_sparse::eviction_queue_test
