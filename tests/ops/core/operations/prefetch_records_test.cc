// Records read ahead of an op change nothing but when they are read, in whatever memory rows are.
#include "ops/core/operations/prefetch_records.h"

#include <utility>

#include "ops/core/operations/clear_rows.h"
#include "ops/core/table/table_locks.h"
#include "tests/ops/core/device/device_testing.h"
#include "tests/ops/core/support/eviction_testing.h"
#include "tests/ops/core/support/hbm_stacks.h"
#include "tests/ops/core/support/small_store.h"
#include "tests/ops/core/support/snapshot_testing.h"

namespace keras_sparse::prefetch_records_test {

constexpr int64_t kDim = 5;

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
  bool Has(int64_t key) const {
    bool found = false;
    Contains(&key, 1, &found);
    return found;
  }
};

AskedStore* asked = nullptr;  // the one that was opened last
const bool kRegistered =
    RowStore::Register("asked", [](const StoreOptions& options, std::unique_ptr<RowStore>* store) {
      auto made = std::make_unique<AskedStore>(options.record_bytes);
      asked = made.get();
      *store = std::move(made);
      return Status::Ok();
    });

StagedRecords::Hold Ahead(EmbeddingTable* table, const std::vector<int64_t>& ids) {
  std::vector<StagedRecords::Hold> holds;
  EXPECT_TRUE(
      IsOk(PrefetchRecords({{table, ids.data(), static_cast<int64_t>(ids.size())}}, &holds)));
  return holds[0];
}

// A table whose first tier is memory or that of a GPU, over a store that tells what it is asked
// for, and one that has all in memory.
class FetchedAhead : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr bool kOnGpu = true;

  //   first_bytes  what the first tier holds between two updates
  void OpenTables(int64_t first_bytes) {
    TableOptions options = Dynamic(kDim);
    plain_ = OpenWithRule(options, AdagradRule(0.1));
    options.storage = HbmOver({"asked"}, first_bytes, 1, folder_ / "rows");
    if (GetParam() != kOnGpu) options.storage.device = nullptr;
    tiered_ = OpenWithRule(options, AdagradRule(0.1));
    store_ = asked;
  }
  std::vector<EmbeddingTable*> both() const { return {tiered_.get(), plain_.get()}; }
  void Train(const std::vector<int64_t>& ids, uint64_t seed = 1) const {
    const std::vector<float> grads = RandomFloats(static_cast<int64_t>(ids.size()) * kDim, seed);
    for (EmbeddingTable* table : both()) ASSERT_TRUE(IsOk(Apply(table, {0.1f}, ids, grads)));
    Settle();
  }
  // Until no record is on its way down, where it would be read without the store.
  void Settle() const {
    const ReadLocks locks({tiered_.get()});
    locks[0].tiers.WaitForWrites();
  }
  void ExpectSameRows(const std::vector<int64_t>& ids) const {
    ASSERT_EQ(Bits(Lookup(tiered_.get(), ids)), Bits(Lookup(plain_.get(), ids)));
  }
  int64_t num_asked() const { return store_->num_asked; }

  const TempFolder folder_;
  std::unique_ptr<EmbeddingTable> tiered_;
  std::unique_ptr<EmbeddingTable> plain_;
  AskedStore* store_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Of, FetchedAhead, ::testing::Bool(),
                         [](const auto& on_gpu) { return on_gpu.param ? "Hbm" : "Dram"; });

TEST_P(FetchedAhead, LeaveNothingToReadToLookupAndUpdate) {
  OpenTables(1);
  Train({1, 2, 3});
  EXPECT_EQ(store_->num_rows(), 3);
  const int64_t before = num_asked();
  const StagedRecords::Hold hold = Ahead(tiered_.get(), {1, 2, 3, 1, 4});
  EXPECT_EQ(num_asked() - before, 4) << "each once";
  EXPECT_EQ(store_->num_rows(), 3) << "where they were";
  ExpectSameRows({1, 2, 3});
  Train({1, 2});
  EXPECT_EQ(num_asked() - before, 4);
  // What was promoted meanwhile, and came down again, is another record.
  ExpectSameRows({1, 2, 3});
  EXPECT_EQ(num_asked() - before, 6);
}

TEST_P(FetchedAhead, AreThoseThatTheFirstTierDoesNotHave) {
  OpenTables(GetParam() == kOnGpu ? 200 * 96 : 20000);
  for (uint64_t step = 0; step < 6; ++step) Train(RandomIds(100, 0, 600, step), step);
  const std::vector<int64_t> ids = RandomIds(200, -100, 700, 9);
  std::set<int64_t> missing;
  const Exported rows = ExportAll(*plain_);
  for (const int64_t id : ids) {
    if (store_->Has(id) || rows.count(id) == 0) missing.insert(id);
  }
  const std::set<int64_t> distinct(ids.begin(), ids.end());
  ASSERT_LT(missing.size() + 20, distinct.size());
  const int64_t before = num_asked();
  const StagedRecords::Hold hold = Ahead(tiered_.get(), ids);
  EXPECT_EQ(num_asked() - before, static_cast<int64_t>(missing.size()));
  // Those that are nowhere are looked for again, as no record says so.
  const auto num_nowhere =
      std::count_if(missing.begin(), missing.end(), [&](int64_t id) { return !store_->Has(id); });
  ExpectSameRows(ids);
  EXPECT_EQ(num_asked() - before, static_cast<int64_t>(missing.size()) + num_nowhere);
}

TEST_P(FetchedAhead, MayBeOfTablesOfBothMemories) {
  OpenTables(1);
  Train({1, 2, 3});
  TableOptions options = Dynamic(kDim);
  options.storage = HbmOver({"asked"}, 1, 1, folder_ / "other");
  if (GetParam() == kOnGpu) options.storage.device = nullptr;
  const auto other = OpenWithRule(options, AdagradRule(0.1));
  const AskedStore* others = asked;
  ASSERT_TRUE(IsOk(Apply(other.get(), {0.1f}, {7, 8}, RandomFloats(2 * kDim, 1))));
  ReadLocks({other.get()})[0].tiers.WaitForWrites();
  const std::vector<int64_t> ids = {1, 2, 7};
  const int64_t before = num_asked() + others->num_asked;
  std::vector<StagedRecords::Hold> holds;
  ASSERT_TRUE(
      IsOk(PrefetchRecords({{tiered_.get(), &ids[0], 2}, {other.get(), &ids[2], 1}}, &holds)));
  EXPECT_TRUE(holds[0] != nullptr && holds[1] != nullptr);
  EXPECT_EQ(num_asked() + others->num_asked - before, 3);
}

TEST_P(FetchedAhead, AreAskedForOnceWhileTheyAreStaged) {
  OpenTables(1);
  Train({1, 2});
  const int64_t before = num_asked();
  const StagedRecords::Hold first = Ahead(tiered_.get(), {1});
  const StagedRecords::Hold second = Ahead(tiered_.get(), {1, 2});
  EXPECT_EQ(num_asked() - before, 2);
}

TEST_P(FetchedAhead, LeaveOutWhatHasChangedWhileTheyWereRead) {
  OpenTables(1);
  const std::vector<int64_t> ids = {1, 2, 3, 4};
  Train(ids);
  store_->after_next_get = [&] {
    Train({1, 2}, 2);
    for (EmbeddingTable* table : both()) ASSERT_TRUE(IsOk(EraseRows(table, {3})));
    Settle();
  };
  const StagedRecords::Hold hold = Ahead(tiered_.get(), ids);
  const int64_t before = num_asked();
  ExpectSameRows(ids);
  EXPECT_EQ(num_asked() - before, 3) << "4 is staged";
  Train(ids, 3);
  EXPECT_EQ(ExportAll(*tiered_), ExportAll(*plain_));
}

TEST_P(FetchedAhead, AreNoneOfATableThatWasCleared) {
  OpenTables(1);
  Train({1});
  store_->after_next_get = [&] {
    for (EmbeddingTable* table : both()) ASSERT_TRUE(IsOk(ClearRows(table, Inline())));
  };
  EXPECT_EQ(Ahead(tiered_.get(), {1}), nullptr);
  ExpectSameRows({1});
}

TEST_P(FetchedAhead, SayWhyATierCannotBeRead) {
  OpenTables(1);
  Train({1});
  store_->fails_get = true;
  std::vector<StagedRecords::Hold> holds;
  const int64_t id = 1;
  EXPECT_EQ(PrefetchRecords({{tiered_.get(), &id, 1}}, &holds).message(), "record 3 is damaged");
  store_->fails_get = false;
  ExpectSameRows({1});
}

#ifndef __CUDACC__
TEST_P(FetchedAhead, AreNoneWhereTheGpuHasNoRoomToSearch) {
  if (GetParam() != kOnGpu) GTEST_SKIP() << "for a GPU";
  OpenTables(1);
  Train({1, 2});
  const int64_t before = num_asked();
  int64_t allocations = 0;
  for (; num_asked() == before; ++allocations) {
    emulated::options().allocations_left = allocations;
    (void)Ahead(tiered_.get(), {1, 2});
    emulated::options().allocations_left = INT64_MAX;
  }
  EXPECT_GT(allocations, 5);
  ExpectSameRows({1, 2});
}
#endif

// Rows pooled ahead are those that the lookup would have given.
TEST_P(FetchedAhead, ArePooledFromIdsInMemory) {
  OpenTables(1);
  Train({1, 2, 3});
  const std::vector<int64_t> ids = {1, 9, 2, 1};
  const std::vector<float> weights = {1, 2, 3, 4};
  const std::vector<int64_t> splits = {0, 3, 4};
  Device* device = tiered_->options().storage.device.get();
  for (const Bags& bags : {NoBags(ids), BagsOf(Combiner::kMean, splits, weights)}) {
    std::vector<float> rows(static_cast<size_t>(bags.num_bags * kDim));
    DeviceArray<float> on_gpu;
    if (device != nullptr) on_gpu = OnDevice(device, rows);
    float* to = device != nullptr ? on_gpu.data() : rows.data();
    ASSERT_TRUE(IsOk(LookupRowsFromHost({{tiered_.get(), ids.data(), bags, to}}, Inline())));
    if (device != nullptr) rows = Values(on_gpu);
    EXPECT_EQ(Bits(rows), Bits(Pool(plain_.get(), ids, bags)));
  }
  const std::vector<int64_t> falling = {0, 3, 2};
  const Bags unsound = BagsOf(Combiner::kSum, falling);
  EXPECT_EQ(LookupRowsFromHost({{tiered_.get(), ids.data(), unsound, nullptr}}, Inline()).code(),
            StatusCode::kInvalidArgument);
}

class FetchedAheadStress : public FetchedAhead {};

INSTANTIATE_TEST_SUITE_P(Of, FetchedAheadStress, ::testing::Bool(),
                         [](const auto& on_gpu) { return on_gpu.param ? "Hbm" : "Dram"; });

TEST_P(FetchedAheadStress, ChangesNoBitWhateverHappensMeanwhile) {
  const bool on_gpu = GetParam() == kOnGpu;
  OpenTables(on_gpu ? 50 * 96 : 10000);
  // To emulate a GPU takes time, under a sanitizer many times as much.
  const int64_t num_ids = on_gpu ? 20 : 60;
  const int64_t num_steps = on_gpu ? 25 : 210;
  std::atomic<bool> is_over{false};
  std::atomic<int64_t> num_held{0};
  std::atomic<uint64_t> num_begun{0};  // of the steps
  std::vector<std::thread> stages;
  for (uint64_t t = 0; t < (on_gpu ? 1u : 2u); ++t) {
    stages.emplace_back([&, t] {
      std::vector<StagedRecords::Hold> holds(4);
      for (uint64_t n = 0; !is_over || n < 10;) {
        if (on_gpu && !is_over && n >= num_begun) {  // the emulated one does one thing at a time
          std::this_thread::yield();
          continue;
        }
        holds[n % 4] = Ahead(tiered_.get(), RandomIds(2 * num_ids, -200, 200, 1000 * t + n));
        num_held += holds[n++ % 4] == nullptr ? 0 : 1;
      }
    });
  }
  ThreadExecutor executor(2);
  for (int64_t step = 1; step <= num_steps; ++step) {
    const auto seed = static_cast<uint64_t>(step);
    ++num_begun;
    const std::vector<int64_t> ids = RandomIds(num_ids, -150, 150, seed);
    const std::vector<float> grads = RandomFloats(num_ids * kDim, seed);
    ExpectSameRows(ids);
    ASSERT_TRUE(IsOk(Apply(tiered_.get(), {0.1f}, ids, grads, &executor)));
    ASSERT_TRUE(IsOk(Apply(plain_.get(), {0.1f}, ids, grads)));
    const std::vector<int64_t> keys = RandomIds(20, -200, 200, seed + 4);
    for (EmbeddingTable* table : both()) {
      if (step % 5 == 0) {
        ASSERT_TRUE(IsOk(EraseRows(table, keys.data(), 20, &executor)));
      } else if (step % 7 == 0) {
        const std::vector<float> rows = RandomFloats(20 * kDim, seed);
        ASSERT_TRUE(IsOk(ImportAll(table, keys, rows, &executor)));
      } else if (step % 11 == 0) {
        (void)Evict(table, WeightBelow(1), &executor);
      } else if (step % 23 == 0) {
        ASSERT_TRUE(IsOk(ClearRows(table, &executor)));
      }
    }
    ExpectSameRows(RandomIds(3 * num_ids, -200, 200, seed + 3));
    if (::testing::Test::HasFatalFailure()) break;
  }
  is_over = true;
  for (std::thread& stage : stages) stage.join();
  EXPECT_EQ(ExportAll(*tiered_, 7), ExportAll(*plain_));
  EXPECT_GT(num_held, 0);
}

}  // namespace keras_sparse::prefetch_records_test
