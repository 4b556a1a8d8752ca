// Records read ahead of an op change nothing but when they are read.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "ops/core/operations/clear_rows.h"
#include "ops/core/operations/evict_rows.h"
#include "ops/core/operations/fetched_records.h"
#include "ops/core/operations/import_rows.h"
#include "tests/ops/core/support/small_store.h"
#include "tests/ops/core/support/snapshot_testing.h"
#include "tests/ops/core/support/table_access.h"
#include "tests/ops/core/support/table_testing.h"
#include "tests/ops/core/support/thread_executor.h"

namespace keras_sparse {
namespace fetch_ahead_test {

// A store that counts the keys it is asked for.
class AskedStore : public SmallStore {
 public:
  explicit AskedStore(int64_t record_bytes) : SmallStore(record_bytes, INT64_MAX) {}

  mutable std::atomic<int64_t> num_asked{0};
  mutable std::function<void()> after_next_get;

  Status GetTo(const int64_t* keys, int64_t n, char* const* to, bool* found) const override {
    num_asked += n;
    const Status status = SmallStore::GetTo(keys, n, to, found);
    const std::function<void()> meanwhile = std::move(after_next_get);
    after_next_get = nullptr;
    if (meanwhile) meanwhile();
    return status;
  }
};

struct Tiered {
  std::unique_ptr<EmbeddingTable> table;
  AskedStore* store;
};

Tiered OpenTiered(const TableOptions& options) {
  Tiered tiered;
  tiered.table = OpenWithRule(options, AdagradRule(0.1));
  auto store = std::make_unique<AskedStore>(8 * options.output_dim);
  tiered.store = store.get();
  EXPECT_TRUE(IsOk(AddLowerTier(tiered.table.get(), std::move(store))));
  return tiered;
}

StagedRecords::Hold Ahead(EmbeddingTable* table, const std::vector<int64_t>& ids) {
  StagedRecords::Hold hold;
  EXPECT_TRUE(IsOk(
      FetchedRecords::FetchAhead(*table, ids.data(), static_cast<int64_t>(ids.size()), &hold)));
  return hold;
}

TEST(FetchAhead, LeavesNothingToReadToLookupAndUpdate) {
  const Tiered tiered = OpenTiered(Dynamic(1));
  ASSERT_TRUE(IsOk(Apply(tiered.table.get(), {0.1f}, {1, 2, 3}, {1, 1, 1})));
  const std::vector<float> rows = Lookup(tiered.table.get(), {1, 2, 3, 4});
  ASSERT_TRUE(IsOk(Demote(tiered.table.get(), {1, 2})));
  const int64_t before = tiered.store->num_asked;
  const StagedRecords::Hold hold = Ahead(tiered.table.get(), {1, 2, 3, 1, 4});
  EXPECT_EQ(tiered.store->num_asked - before, 3) << "1, 2 and 4, each once";
  EXPECT_EQ(CountInFirstTier(*tiered.table, std::vector<int64_t>{1, 2}.data(), 2), 0);
  EXPECT_EQ(Lookup(tiered.table.get(), {1, 2, 3}),
            (std::vector<float>(rows.begin(), rows.end() - 1)));
  ASSERT_TRUE(IsOk(Apply(tiered.table.get(), {0.1f}, {1, 2}, {1, 1})));
  EXPECT_EQ(tiered.store->num_asked - before, 3);
  EXPECT_EQ(tiered.store->num_rows(), 0);
  // What was promoted meanwhile, and came down again, is another record.
  ASSERT_TRUE(IsOk(Demote(tiered.table.get(), {1, 2})));
  (void)Lookup(tiered.table.get(), {1, 2});
  EXPECT_EQ(tiered.store->num_asked - before, 5);
}

TEST(FetchAhead, AsksForNothingTwiceWhileItIsStaged) {
  const Tiered tiered = OpenTiered(Dynamic(1));
  ASSERT_TRUE(IsOk(Apply(tiered.table.get(), {0.1f}, {1, 2}, {1, 1})));
  ASSERT_TRUE(IsOk(Demote(tiered.table.get(), {1, 2})));
  const StagedRecords::Hold first = Ahead(tiered.table.get(), {1});
  const StagedRecords::Hold second = Ahead(tiered.table.get(), {1, 2});
  EXPECT_EQ(tiered.store->num_asked, 2);
}

TEST(FetchAhead, StagesNothingThatHasChangedWhileItWasRead) {
  const Tiered tiered = OpenTiered(Dynamic(1));
  const auto plain = OpenWithRule(Dynamic(1), AdagradRule(0.1));
  const std::vector<int64_t> ids = {1, 2, 3, 4};
  const auto train = [&](const std::vector<int64_t>& trained) {
    const std::vector<float> grads(trained.size(), 1);
    for (EmbeddingTable* table : {tiered.table.get(), plain.get()}) {
      ASSERT_TRUE(IsOk(Apply(table, {0.1f}, trained, grads)));
    }
  };
  train(ids);
  ASSERT_TRUE(IsOk(Demote(tiered.table.get(), ids)));
  tiered.store->after_next_get = [&] {
    train({1, 2});
    for (EmbeddingTable* table : {tiered.table.get(), plain.get()}) {
      ASSERT_TRUE(IsOk(EraseRows(table, {3})));
    }
    ASSERT_TRUE(IsOk(Demote(tiered.table.get(), {1})));
  };
  const StagedRecords::Hold hold = Ahead(tiered.table.get(), ids);
  const int64_t before = tiered.store->num_asked;
  EXPECT_EQ(Lookup(tiered.table.get(), ids), Lookup(plain.get(), ids));
  EXPECT_EQ(tiered.store->num_asked - before, 2) << "1 and 3; 2 is in the first tier, 4 staged";
  train(ids);
  EXPECT_EQ(ExportAll(*tiered.table), ExportAll(*plain));
}

TEST(FetchAhead, StagesNothingOfATableThatWasCleared) {
  TableOptions options = Dynamic(2);
  const Tiered tiered = OpenTiered(options);
  ASSERT_TRUE(IsOk(Apply(tiered.table.get(), {0.1f}, {1}, {1, 1})));
  ASSERT_TRUE(IsOk(Demote(tiered.table.get(), {1})));
  tiered.store->after_next_get = [&] {
    ASSERT_TRUE(IsOk(ClearRows(tiered.table.get(), Inline())));
  };
  EXPECT_EQ(Ahead(tiered.table.get(), {1}), nullptr);
  EXPECT_EQ(Lookup(tiered.table.get(), {1}), InitialRow(options, 1));
}

TEST(FetchAhead, SaysWhyATierCannotBeRead) {
  const Tiered tiered = OpenTiered(Dynamic(1));
  ASSERT_TRUE(IsOk(Apply(tiered.table.get(), {0.1f}, {1}, {1})));
  ASSERT_TRUE(IsOk(Demote(tiered.table.get(), {1})));
  tiered.store->fails_get = true;
  StagedRecords::Hold hold;
  const int64_t id = 1;
  const Status status = FetchedRecords::FetchAhead(*tiered.table, &id, 1, &hold);
  EXPECT_EQ(status.message(), "record 3 is damaged");
  tiered.store->fails_get = false;
  EXPECT_EQ(Lookup(tiered.table.get(), {1}).size(), 1u);
}

TEST(FetchAheadStress, ChangesNoBitWhateverHappensMeanwhile) {
  const TableOptions options = Dynamic(5);
  const Tiered tiered = OpenTiered(options);
  const auto plain = OpenWithRule(options, AdagradRule(0.1));
  std::atomic<bool> is_over{false};
  std::vector<std::thread> stages;
  for (uint64_t t = 0; t < 2; ++t) {
    stages.emplace_back([&, t] {
      std::vector<StagedRecords::Hold> holds(4);
      for (uint64_t n = 0; !is_over; ++n) {
        holds[n % 4] = Ahead(tiered.table.get(), RandomIds(100, -200, 200, 1000 * t + n));
      }
    });
  }
  ThreadExecutor executor(2);
  for (int64_t step = 1; step <= 210; ++step) {
    const auto seed = static_cast<uint64_t>(step);
    const std::vector<int64_t> ids = RandomIds(60, -150, 150, seed);
    const std::vector<float> grads = RandomFloats(60 * 5, seed);
    ASSERT_TRUE(IsOk(Demote(tiered.table.get(), RandomIds(100, -200, 200, seed + 1))));
    ASSERT_EQ(Bits(Lookup(tiered.table.get(), ids)), Bits(Lookup(plain.get(), ids)));
    ASSERT_TRUE(IsOk(Apply(tiered.table.get(), {0.1f}, ids, grads, &executor)));
    ASSERT_TRUE(IsOk(Apply(plain.get(), {0.1f}, ids, grads)));
    ASSERT_TRUE(IsOk(Demote(tiered.table.get(), RandomIds(300, -200, 200, seed + 2))));
    const std::vector<int64_t> keys = RandomIds(20, -200, 200, seed + 4);
    for (EmbeddingTable* table : {tiered.table.get(), plain.get()}) {
      if (step % 5 == 0) {
        ASSERT_TRUE(IsOk(EraseRows(table, keys.data(), 20, &executor)));
      } else if (step % 7 == 0) {
        const std::vector<float> rows = RandomFloats(20 * 5, seed);
        ASSERT_TRUE(IsOk(ImportRows(table, keys.data(), 20, rows.data(), 5, &executor)));
      } else if (step % 101 == 0) {
        ASSERT_TRUE(IsOk(ClearRows(table, &executor)));
      }
    }
    const std::vector<int64_t> read = RandomIds(300, -200, 200, seed + 3);
    ASSERT_EQ(Bits(Lookup(tiered.table.get(), read)), Bits(Lookup(plain.get(), read)));
  }
  is_over = true;
  for (std::thread& stage : stages) stage.join();
  EXPECT_EQ(ExportAll(*tiered.table, 7), ExportAll(*plain));
}

}  // namespace fetch_ahead_test
}  // namespace keras_sparse
