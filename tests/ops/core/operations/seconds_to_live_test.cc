// Tables that keep the ages of their rows in seconds.

#include "ops/core/operations/check_room.h"
#include "ops/core/operations/clear_rows.h"
#include "tests/ops/core/support/eviction_testing.h"
#include "tests/ops/core/support/snapshot_testing.h"

namespace keras_sparse::seconds_to_live_test {

using AgeOfKey = std::map<int64_t, uint32_t>;

std::unique_ptr<EmbeddingTable> OpenAt(uint32_t seconds) {
  seconds_of_test = seconds;
  return OpenWithRule(AgingInSeconds(Dynamic(1)), SgdRule());
}

// A step for one key, at this time.
void StepAt(EmbeddingTable* table, uint32_t seconds, int64_t key) {
  seconds_of_test = seconds;
  ASSERT_TRUE(IsOk(Subtract(table, {key}, {1})));
}

TEST(SecondsToLive, LetARowGoOnceTheyHavePassed) {
  for (const uint32_t start : {1'800'000'000u, UINT32_MAX - 6}) {  // also where they begin anew
    const auto table = OpenAt(start);
    StepAt(table.get(), start + 1, 1);
    StepAt(table.get(), start + 4, 2);
    PassSteps(table.get(), {1}, 9);  // steps are none
    seconds_of_test = start + 11;
    EXPECT_EQ(Ages(*table), (AgeOfKey{{1, 10}, {2, 7}}));
    EXPECT_EQ(Evict(table.get(), OlderThanSeconds(10)), 0);
    EXPECT_EQ(Evict(table.get(), OlderThanSeconds(9.5)), 1);
    seconds_of_test = start + 15;
    EXPECT_EQ(Evict(table.get(), OlderThanSeconds(10)), 1) << "time goes on without a step";
    EXPECT_EQ(NumRowsOf(*table), 0);
  }
}

TEST(SecondsToLive, StandStillWhileTheSystemsClockIsBehind) {
  const auto table = OpenAt(1000);
  StepAt(table.get(), 2000, 1);
  StepAt(table.get(), 1500, 2);
  EXPECT_EQ(Ages(*table), (AgeOfKey{{1, 0}, {2, 0}}));
  EXPECT_EQ(Evict(table.get(), OlderThanSeconds(1)), 0);
  StepAt(table.get(), 2003, 2);
  EXPECT_EQ(Ages(*table), (AgeOfKey{{1, 3}, {2, 0}}));
  EXPECT_EQ(Evict(table.get(), OlderThanSeconds(1)), 1);
}

TEST(SecondsToLive, AreThoseThatARowIsImportedWith) {
  const auto table = OpenAt(100);
  seconds_of_test = 500;
  const std::vector<int64_t> keys = {1, 2, 3, 4};
  // The time of the third lies before 1970; the last one's age would begin anew in a second.
  const std::vector<uint32_t> ages = {0, 20, 4'000'000, UINT32_MAX};
  ASSERT_TRUE(IsOk(ImportRows(table.get(), keys.data(), 4, std::vector<float>(4, 1).data(), 1,
                              Inline(), ages.data())));
  EXPECT_EQ(Ages(*table), (AgeOfKey{{1, 0}, {2, 20}, {3, 4'000'000}, {4, 1u << 31}}));
  seconds_of_test = 505;
  EXPECT_EQ(Evict(table.get(), OlderThanSeconds(0x1p31 - 1)), 1);
  EXPECT_EQ(Evict(table.get(), OlderThanSeconds(24)), 2);
  EXPECT_EQ(Ages(*table), (AgeOfKey{{1, 5}}));
}

TEST(SecondsToLive, AreOfOneMomentInAllPiecesOfAnExport) {
  const auto table = OpenAt(100);
  for (int64_t key = 0; key < 3000; ++key) StepAt(table.get(), 100, key);
  seconds_of_test = 110;
  ExportedRows piece;
  for (int64_t cursor = 0; cursor >= 0; cursor = piece.next_cursor) {
    ASSERT_TRUE(IsOk(ExportRows(*table, cursor, 10, &piece)));
    for (const uint32_t age : piece.ages) ASSERT_EQ(age, 10u);
    ++seconds_of_test;
  }
  EXPECT_GT(seconds_of_test, 111u);
}

TEST(SecondsToLive, GoOnWhereATableIsSavedAndRestored) {
  const auto saved = OpenAt(1000);
  StepAt(saved.get(), 1000, 1);
  StepAt(saved.get(), 1050, 2);
  const RuleHistory history = HistoryOf(*saved);
  EXPECT_EQ(history.table_step, 1050u);
  const StoredRecords records = ExportRaw(saved.get());
  // The next day, by a clock that is behind, and after a file from the year 2100 has been here.
  for (const auto& [now, expected] :
       std::vector<std::pair<uint32_t, uint32_t>>{{87450, 86400}, {900, 0}, {1050, 0}}) {
    seconds_of_test = now;
    const auto loaded = OpenWithRule(AgingInSeconds(Dynamic(1)), SgdRule());
    RuleHistory ahead = history;
    ahead.table_step = 1u << 30;
    ASSERT_TRUE(IsOk(RestoreSteps(loaded.get(), ahead, Inline())));
    ASSERT_TRUE(IsOk(RestoreSteps(loaded.get(), history, Inline())));
    for (const auto& [key, record] : records) {
      ASSERT_TRUE(IsOk(ImportRows(loaded.get(), &key, 1,
                                  reinterpret_cast<const float*>(record.data()), 2, Inline())));
    }
    EXPECT_EQ(Ages(*loaded), (AgeOfKey{{1, expected + 50}, {2, expected}}));
  }
}

TEST(SecondsToLive, NeverGoBackWhereChangesAreApplied) {
  const auto trained = OpenAt(1000);
  StepAt(trained.get(), 1000, 1);
  const StoredRecords records = ExportRaw(trained.get());
  const auto apply = [&](EmbeddingTable* table, uint32_t clock = 1000, int64_t width = 2) {
    const int64_t key = 1;
    const SavedChange change = {
        nullptr, 0, &key, reinterpret_cast<const float*>(records.at(1).data()), 1, width};
    RuleHistory history = HistoryOf(*table);  // of as many steps
    history.table_step = clock;
    return ApplyChanges(table, history, {change}, Inline());
  };
  const auto ahead = OpenAt(3000);
  StepAt(ahead.get(), 3000, 7);
  seconds_of_test = 2000;
  ASSERT_TRUE(IsOk(apply(ahead.get())));
  EXPECT_EQ(Ages(*ahead), (AgeOfKey{{1, 2000}, {7, 0}}));
  const auto behind = OpenAt(400);
  StepAt(behind.get(), 400, 7);
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "wide", apply(behind.get(), 5000, 7)));
  EXPECT_EQ(Ages(*behind), (AgeOfKey{{7, 0}})) << "changes that are refused";
  ASSERT_TRUE(IsOk(apply(behind.get())));
  EXPECT_EQ(Ages(*behind), (AgeOfKey{{1, 0}, {7, 600}}));
}

TEST(SecondsToLive, AreNotTheUpdatesThatALookupMayMiss) {
  const auto table = OpenAt(1000);
  StepAt(table.get(), 1000, 1);
  StepAt(table.get(), 1500, 1);
  uint32_t num_updates = 0;
  LookupRequest request = {};
  request.table = table.get();
  request.num_updates = &num_updates;
  ReadVersions({request});
  EXPECT_EQ(num_updates, 2u);
}

TEST(SecondsToLive, MakeRoomForAStep) {
  const auto table = OpenAt(1000);
  ASSERT_TRUE(IsOk(SetRowLimit(table.get(), 2, MakePolicy(OlderThanSeconds(60)))));
  StepAt(table.get(), 1000, 1);
  StepAt(table.get(), 1030, 2);
  seconds_of_test = 1060;
  EXPECT_EQ(Subtract(table.get(), {3}, {1}).code(), StatusCode::kResourceExhausted);
  StepAt(table.get(), 1061, 3);
  EXPECT_EQ(Ages(*table), (AgeOfKey{{2, 31}, {3, 0}}));
  // Of a step with its own keys none go, however old they are.
  seconds_of_test = 2000;
  ASSERT_TRUE(IsOk(Subtract(table.get(), {2, 4}, {1, 1})));
  EXPECT_EQ(Ages(*table), (AgeOfKey{{2, 0}, {4, 0}}));
}

TEST(SecondsToLive, AreOfTablesThatKeepThem) {
  const auto seconds = OpenAt(1000);
  const auto steps = OpenWithRule(Aging(Dynamic(1)), SgdRule());
  const auto none = OpenWithRule(Dynamic(1), SgdRule());
  int64_t num_evicted = 0;
  const auto refused = [](const std::string& words, const Status& status) {
    EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, words, status));
  };
  for (const EvictionOptions& policy : {OlderThan(3), Lru()}) {
    refused("must keep the ages of rows in training steps",
            TryToEvict(seconds.get(), policy, &num_evicted));
    refused("a table with ages in seconds", SetRowLimit(seconds.get(), 9, MakePolicy(policy)));
  }
  refused("must keep the ages of rows in seconds for this eviction policy",
          TryToEvict(steps.get(), OlderThanSeconds(3), &num_evicted));
  refused("must keep the steps of gradients",
          TryToEvict(none.get(), OlderThanSeconds(3), &num_evicted));
  EXPECT_TRUE(IsOk(TryToEvict(seconds.get(), WeightBelow(1e-9), &num_evicted)));
  TableOptions ageless = AgingInSeconds(Dynamic(1));
  ageless.keeps.gradient_step = false;
  std::unique_ptr<EmbeddingTable> table;
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "must keep them",
                        EmbeddingTable::Open(ageless, Inline(), &table)));
}

}  // namespace keras_sparse::seconds_to_live_test
