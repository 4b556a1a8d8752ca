// A limit of rows: no update or import makes more, and a refused one touches nothing.
#include <iterator>
#include <set>

#include "ops/core/operations/check_room.h"
#include "ops/core/stores/dram_store.h"
#include "tests/ops/core/support/eviction_testing.h"
#include "tests/ops/core/support/filter_testing.h"
#include "tests/ops/core/support/table_access.h"
#include "tests/ops/core/support/thread_executor.h"

namespace keras_sparse::row_limit_test {

using Row = std::vector<float>;

std::unique_ptr<EmbeddingTable> OpenLimited(int64_t max_rows, const TableOptions& options,
                                            const EvictionOptions* eviction = nullptr) {
  auto table = OpenWithRule(options, SgdRule());
  auto policy = eviction == nullptr ? nullptr : MakePolicy(*eviction);
  EXPECT_TRUE(IsOk(SetRowLimit(table.get(), max_rows, std::move(policy))));
  return table;
}

TEST(RowLimit, TakesAsManyRowsAsItSaysAndNoMore) {
  const auto table = OpenLimited(3, Dynamic(1));
  ASSERT_TRUE(IsOk(Subtract(table.get(), {-5, 7, 7, -5}, {1, 1, 1, 1})));
  ASSERT_TRUE(IsOk(Subtract(table.get(), {7, 9}, {1, 1})));
  const auto before = ExportAll(*table);
  const Status status = Subtract(table.get(), {7, 10, 9, 10, 11}, {1, 1, 1, 1, 1});
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("`max_rows` of table 'items' must hold the rows of all its keys"),
            std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find("max_rows=3 where the table has 3 rows and 2 keys are new"),
            std::string::npos)
      << status.message();
  EXPECT_EQ(ExportAll(*table), before);
  EXPECT_EQ(StatsOf(*table).created_rows, 3);
  ASSERT_TRUE(IsOk(Subtract(table.get(), {-5, 7, 9, 9}, {1, 1, 1, 1})));
}

TEST(RowLimit, OfOneTableStopsTheUpdateOfAll) {
  const auto limited = OpenLimited(1, Dynamic(1));
  const auto other = OpenWithRule(Dynamic(1), SgdRule());
  const std::vector<int64_t> ids = {1, 2};
  const Row grads = {1, 1};
  ASSERT_TRUE(IsOk(Subtract(other.get(), ids, grads)));
  const auto before = ExportAll(*other);
  std::vector<ApplyRequest> requests;
  for (EmbeddingTable* table : {other.get(), limited.get()}) {
    requests.push_back(Request(table, ids, NoBags(ids), grads));
  }
  EXPECT_EQ(ApplyGradients(requests, Inline()).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(ExportAll(*other), before);
  EXPECT_EQ(NumRowsOf(*limited), 0);
}

TEST(RowLimit, CountsTheRowsOfAllTiersOnce) {
  const auto table = OpenLimited(4, Dynamic(1));
  ASSERT_TRUE(IsOk(AddLowerTier(table.get(), std::make_unique<DramStore>(4))));
  ASSERT_TRUE(IsOk(Subtract(table.get(), {1, 2, 3}, {1, 1, 1})));
  const std::vector<int64_t> demoted = {1, 2};
  ASSERT_TRUE(IsOk(Demote(table.get(), demoted.data(), 2)));
  EXPECT_EQ(Subtract(table.get(), {1, 4, 5}, {1, 1, 1}).code(), StatusCode::kResourceExhausted);
  ASSERT_TRUE(IsOk(Subtract(table.get(), {1, 2, 4, 3}, {1, 1, 1, 1})));
  EXPECT_EQ(NumRowsOf(*table), 4);
  EXPECT_EQ(Subtract(table.get(), {5}, {1}).code(), StatusCode::kResourceExhausted);
}

TEST(RowLimit, KeepsAllRowsThatAreImportedAndUpdatesThem) {
  const auto table = OpenLimited(2, Dynamic(1));
  const std::vector<int64_t> keys = {4, 5, 6};
  const Row rows = {1, 2, 3};
  ASSERT_TRUE(IsOk(ImportAll(table.get(), keys, rows)));
  ASSERT_TRUE(IsOk(Subtract(table.get(), keys, {1, 1, 1})));
  ASSERT_TRUE(IsOk(Subtract(table.get(), {}, {})));
  EXPECT_EQ(Lookup(table.get(), keys), Row({0, 1, 2}));
  EXPECT_EQ(Subtract(table.get(), {4, 7}, {1, 1}).code(), StatusCode::kResourceExhausted);
}

TEST(RowLimit, LetsRowsGoByItsPolicyButNotThoseOfTheStep) {
  const EvictionOptions eviction = OlderThan(1);
  const auto table = OpenLimited(3, Aging(Dynamic(1)), &eviction);
  ASSERT_TRUE(IsOk(Subtract(table.get(), {1, 2, 3}, {1, 1, 1})));
  const Row first = Lookup(table.get(), {1});
  ASSERT_TRUE(IsOk(Subtract(table.get(), {3}, {1})));
  ASSERT_TRUE(IsOk(Subtract(table.get(), {3}, {1})));
  EXPECT_EQ(StatsOf(*table).evicted_rows, 0) << "as long as there is room nothing goes";
  // 1 and 2 are two steps old, and 1 gets a gradient now.
  ASSERT_TRUE(IsOk(Subtract(table.get(), {1, 4}, {1, 1})));
  EXPECT_EQ(StatsOf(*table).evicted_rows, 1);
  EXPECT_EQ(Lookup(table.get(), {1}), Row({first[0] - 1}));
  EXPECT_EQ(ExportAll(*table).count(2), 0u);
  EXPECT_EQ(NumRowsOf(*table), 3);
  // Nobody is old enough.
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "policy lets 0 go, and 1 keys are new",
                        Subtract(table.get(), {5}, {1})));
  PassSteps(table.get(), {1}, 2);
  const Status status = Subtract(table.get(), {3, 4, 5}, {1, 1, 1});
  EXPECT_TRUE(IsOk(status));
  EXPECT_EQ(StatsOf(*table).evicted_rows, 2);
}

TEST(RowLimit, LetsNoRowGoForAStepThatCannotFit) {
  const EvictionOptions eviction = OlderThan(1);
  const auto table = OpenLimited(3, Aging(Dynamic(1)), &eviction);
  ASSERT_TRUE(IsOk(Subtract(table.get(), {1, 2, 3}, {1, 1, 1})));
  PassSteps(table.get(), {1}, 5);
  EXPECT_EQ(Subtract(table.get(), {3, 4, 5, 6}, {1, 1, 1, 1}).code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(StatsOf(*table).evicted_rows, 0);
  EXPECT_EQ(NumRowsOf(*table), 3);
}

TEST(RowLimit, OfALaterTableLetsNoRowGo) {
  const EvictionOptions eviction = OlderThan(1);
  const auto evicting = OpenLimited(3, Aging(Dynamic(1)), &eviction);
  const auto full = OpenLimited(1, Dynamic(1));
  ASSERT_TRUE(IsOk(Subtract(evicting.get(), {1, 2, 3}, {1, 1, 1})));
  PassSteps(evicting.get(), {1}, 5);
  const auto before = ExportAll(*evicting);
  const std::vector<int64_t> ids = {4, 5};
  const Row grads = {1, 1};
  std::vector<ApplyRequest> requests;
  for (EmbeddingTable* table : {evicting.get(), full.get()}) {
    requests.push_back(Request(table, ids, NoBags(ids), grads));
  }
  EXPECT_EQ(ApplyGradients(requests, Inline()).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(ExportAll(*evicting), before);
  EXPECT_EQ(StatsOf(*evicting).evicted_rows, 0);
}

TEST(RowLimit, LetsNoRowGoWhereThatIsNotEnough) {
  const EvictionOptions eviction = OlderThan(1);
  const auto table = OpenLimited(3, Aging(Dynamic(1)), &eviction);
  ASSERT_TRUE(IsOk(Subtract(table.get(), {1}, {1})));
  PassSteps(table.get(), {1}, 5);
  ASSERT_TRUE(IsOk(Subtract(table.get(), {2, 3}, {1, 1})));
  const auto before = ExportAll(*table);
  const Status status = Subtract(table.get(), {5, 6}, {1, 1});
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("max_rows=3 where the table has 3 rows, of which its eviction "
                                  "policy lets 1 go, and 2 keys are new"),
            std::string::npos)
      << status.message();
  EXPECT_EQ(ExportAll(*table), before);
  EXPECT_EQ(StatsOf(*table).evicted_rows, 0);
}

TEST(RowLimit, IsLookedAtWithoutAChange) {
  const EvictionOptions eviction = OlderThan(1);
  const auto table = OpenLimited(3, Aging(Dynamic(1)), &eviction);
  ASSERT_TRUE(IsOk(Subtract(table.get(), {1, 2, 3}, {1, 1, 1})));
  const std::vector<int64_t> known = {3, 1, 1};
  const std::vector<int64_t> fresh = {1, 9};
  EXPECT_TRUE(IsOk(CheckRoom(table.get(), known.data(), 3, Inline())));
  EXPECT_EQ(CheckRoom(table.get(), fresh.data(), 2, Inline()).code(),
            StatusCode::kResourceExhausted);
  PassSteps(table.get(), {1}, 5);
  const auto before = ExportAll(*table);
  EXPECT_TRUE(IsOk(CheckRoom(table.get(), fresh.data(), 2, Inline()))) << "2 and 3 would go";
  EXPECT_EQ(ExportAll(*table), before);
  EXPECT_EQ(StatsOf(*table).evicted_rows, 0);
}

TEST(RowLimit, CountsOnlyKeysThatTheFilterWouldAdmit) {
  for (const FilterOptions& filter : {Counter(2), Cbf(2, 1000, 0.01, 8)}) {
    const auto table = OpenLimited(2, Dynamic(1));
    ASSERT_TRUE(IsOk(SetFilter(table.get(), filter)));
    ASSERT_TRUE(IsOk(Subtract(table.get(), {1, 2, 3, 4}, {1, 1, 1, 1})));
    ASSERT_TRUE(IsOk(Subtract(table.get(), {1, 2, 5, 6}, {1, 1, 1, 1})));
    EXPECT_EQ(NumRowsOf(*table), 2);
    const int64_t filtered = StatsOf(*table).filtered_ids;
    EXPECT_EQ(Subtract(table.get(), {3}, {1}).code(), StatusCode::kResourceExhausted);
    EXPECT_EQ(StatsOf(*table).filtered_ids, filtered);
    ASSERT_TRUE(IsOk(Subtract(table.get(), {1, 7}, {1, 1})));
    EXPECT_EQ(Subtract(table.get(), {7}, {1}).code(), StatusCode::kResourceExhausted);
  }
}

TEST(RowLimit, ForeseesWhatOccurrencesOfAStepAdmit) {
  for (const FilterOptions& filter : {Counter(3, true), Cbf(3, 1000, 0.01, 8, true)}) {
    const auto table = OpenLimited(1, Dynamic(1));
    ASSERT_TRUE(IsOk(SetFilter(table.get(), filter)));
    ASSERT_TRUE(IsOk(Subtract(table.get(), {1, 2, 1, 1}, {1, 1, 1, 1})));
    EXPECT_EQ(NumRowsOf(*table), 1);
    ASSERT_TRUE(IsOk(Subtract(table.get(), {2, 3, 3}, {1, 1, 1}))) << "2 and 3 wait";
    EXPECT_EQ(Subtract(table.get(), {4, 4, 4}, {1, 1, 1}).code(), StatusCode::kResourceExhausted);
    EXPECT_EQ(Subtract(table.get(), {2}, {1}).code(), StatusCode::kResourceExhausted);
    EXPECT_EQ(NumRowsOf(*table), 1);
  }
}

TEST(RowLimit, ForeseesWhatAFilterDraws) {
  const auto table = OpenLimited(1 << 30, Dynamic(1));
  ASSERT_TRUE(IsOk(SetFilter(table.get(), Probability(0.5))));
  std::vector<int64_t> ids(64);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i);
  ASSERT_TRUE(IsOk(Subtract(table.get(), ids, Row(64, 1))));
  const int64_t admitted = NumRowsOf(*table);
  for (const bool has_room : {false, true}) {
    const auto limited = OpenLimited(has_room ? admitted : admitted - 1, Dynamic(1));
    ASSERT_TRUE(IsOk(SetFilter(limited.get(), Probability(0.5))));
    EXPECT_EQ(Subtract(limited.get(), ids, Row(64, 1)).ok(), has_room);
    EXPECT_EQ(NumRowsOf(*limited), has_room ? admitted : 0);
  }
}

TEST(RowLimit, FollowsASetOfKeysWhateverComes) {
  ThreadExecutor executor(4);
  std::mt19937 random(7);
  const auto table = OpenLimited(500, Dynamic(2));
  std::set<int64_t> expected;
  int num_refused = 0;
  for (int step = 0; step < 300; ++step) {
    std::vector<int64_t> ids(random() % 400);
    for (int64_t& id : ids) id = static_cast<int64_t>(random() % 600) - 300;
    std::set<int64_t> after = expected;
    after.insert(ids.begin(), ids.end());
    const bool fits = after.size() <= 500;
    num_refused += fits ? 0 : 1;
    EXPECT_EQ(Apply(table.get(), {1}, ids, Row(2 * ids.size(), 1), &executor).ok(), fits);
    if (fits) expected = after;
    ASSERT_EQ(NumRowsOf(*table), static_cast<int64_t>(expected.size()));
    if (step % 20 == 19 && expected.size() > 300) {
      const std::vector<int64_t> gone(expected.begin(), std::next(expected.begin(), 150));
      ASSERT_TRUE(IsOk(EraseRows(table.get(), gone.data(), 150, Inline())));
      for (const int64_t key : gone) expected.erase(key);
    }
  }
  EXPECT_GT(num_refused, 10);
  EXPECT_LT(num_refused, 290);
}

TEST(RowLimit, IsRefusedWhereItMakesNoSense) {
  EXPECT_EQ(SetRowLimit(OpenWithRule(Options(3, 1), SgdRule()).get(), 3, nullptr).code(),
            StatusCode::kUnimplemented);
  const auto table = OpenWithRule(Dynamic(1), SgdRule());
  EXPECT_EQ(SetRowLimit(table.get(), 0, nullptr).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(SetRowLimit(table.get(), 1, MakePolicy(OlderThan(1))).code(),
            StatusCode::kFailedPrecondition);
}

}  // namespace keras_sparse::row_limit_test
