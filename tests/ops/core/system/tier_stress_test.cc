// Lookups, updates, demotions, evictions, compactions and checkpoints at once, over a first tier of
// a few rows. Every update adds one to the rows it names, so that what a row must read is known
// exactly. Rows of zeros are evicted: to a reader they are still there. KERAS_SPARSE_STRESS_SECONDS
// says for how long, 0.4 if it is not set: `make stress` takes a minute.

#include <chrono>
#include <cstdlib>

#include "tests/ops/core/support/eviction_testing.h"
#include "tests/ops/core/support/snapshot_testing.h"
#include "tests/ops/core/support/table_access.h"

namespace keras_sparse::tier_stress_test {

constexpr int64_t kDim = 16;
constexpr int64_t kKeys = 1000;  // of each thread that updates
constexpr int64_t kTrainers = 2;
constexpr int64_t kRisingKeys = 200;  // beyond those; their rows rise and fall back to zeros

double Seconds() {
  const char* text = std::getenv("KERAS_SPARSE_STRESS_SECONDS");
  return text == nullptr ? 0.4 : std::atof(text);
}

struct Case {
  std::string name;
  std::vector<std::string> lower_tiers;
  std::vector<int64_t> lower_sizes;
  std::string strategy = "LRU";
  std::string async_compaction = "0";
};

void PrintTo(const Case& param, std::ostream* stream) { *stream << param.name; }

class TierStress : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    TableOptions options = Dynamic(kDim);
    options.initializer = {};
    std::vector<int64_t> sizes = {4000};
    for (const int64_t size : GetParam().lower_sizes) sizes.push_back(size);
    options.storage = {GetParam().lower_tiers, sizes, folder_ / "rows", GetParam().strategy};
    ::setenv("KERAS_SPARSE_SSDHASH_ASYNC_COMPACTION", GetParam().async_compaction.c_str(), 1);
    const Status opened = EmbeddingTable::Open(options, Inline(), &table_);
    ::unsetenv("KERAS_SPARSE_SSDHASH_ASYNC_COMPACTION");
    if (GetParam().lower_tiers[0] != "ssdhash" && opened.code() == StatusCode::kInvalidArgument) {
      GTEST_SKIP() << "not in this build";
    }
    ASSERT_TRUE(IsOk(opened));
    ASSERT_TRUE(IsOk(SetRule(table_.get(), SgdRule(), Inline())));
  }

  // Runs all bodies at once, each again and again until the time is up; on a slow machine until
  // all that is to be stressed has happened, so that a test does not pass idle.
  void RunAll(const std::vector<std::function<void(std::mt19937_64* random)>>& bodies) {
    std::atomic<bool> is_over{false};
    std::vector<std::thread> threads;
    for (size_t i = 0; i < bodies.size(); ++i) {
      threads.emplace_back([&bodies, &is_over, i] {
        std::mt19937_64 random(i);
        while (!is_over && !HasFatalFailure()) bodies[i](&random);
      });
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(Seconds()));
    for (int i = 0; i < 15000 && IdleTier() != "" && !HasFatalFailure(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    is_over = true;
    for (std::thread& thread : threads) thread.join();
  }

  // A tier that rows have not gone through both ways, or that has not compacted.
  std::string IdleTier() const {
    for (const TierStats& tier : TierStatsOf(*table_)) {
      if (tier.promotions == 0 || tier.demotions == 0) return tier.tier;
      if (tier.tier == "ssdhash" && tier.compacted_bytes == 0) return tier.tier;
    }
    return "";
  }

  // One update of keys of a trainer, then a lookup of others of its keys.
  void Train(int64_t trainer, std::mt19937_64* random, Executor* executor) {
    std::vector<std::atomic<int>>& mine = updates_[static_cast<size_t>(trainer)];
    const std::vector<int64_t> ids = SomeKeys(trainer, 50, random);
    const std::vector<float> grads(ids.size() * kDim, -1);
    ASSERT_TRUE(IsOk(Apply(table_.get(), {1}, ids, grads, executor)));
    for (const int64_t id : ids) ++mine[static_cast<size_t>(id % kKeys)];
    const std::vector<int64_t> read = SomeKeys(trainer, 50, random);
    const std::vector<float> rows = Lookup(table_.get(), read, executor);
    for (size_t i = 0; i < rows.size(); ++i) {
      const int64_t id = read[i / kDim];
      ASSERT_EQ(rows[i], static_cast<float>(mine[static_cast<size_t>(id % kKeys)])) << "key " << id;
    }
  }

  // Rows of all trainers: whole, and with all updates that were done before the lookup.
  void Read(std::mt19937_64* random, Executor* executor) {
    const auto trainer = static_cast<int64_t>((*random)() % kTrainers);
    const std::vector<int64_t> ids = SomeKeys(trainer, 100, random);
    std::vector<int> done;
    for (const int64_t id : ids) {
      done.push_back(updates_[static_cast<size_t>(trainer)][static_cast<size_t>(id % kKeys)]);
    }
    const std::vector<float> rows = Lookup(table_.get(), ids, executor);
    for (size_t i = 0; i < rows.size(); ++i) {
      ASSERT_EQ(rows[i], rows[i / kDim * kDim]) << "half an update";
      ASSERT_GE(rows[i], static_cast<float>(done[i / kDim])) << "an update is lost";
    }
  }

  void Demote(std::mt19937_64* random) {
    const auto trainer = static_cast<int64_t>((*random)() % kTrainers);
    const std::vector<int64_t> keys = SomeKeys(trainer, 10, random);
    ASSERT_TRUE(IsOk(keras_sparse::Demote(table_.get(), keys.data(), 10)));
    ASSERT_LE(NumRowsOf(*table_), kTrainers * kKeys + kRisingKeys);
    // Now and then all that waits is written.
    if ((*random)() % 64 == 0) {
      ASSERT_LE(StatsOf(*table_).rows, kTrainers * kKeys + kRisingKeys);
    }
    std::this_thread::yield();
  }

  // Rows that rise, go down a tier perhaps, fall, and are evicted: an old copy would read as risen.
  void RiseAndFall(std::mt19937_64* random, Executor* executor) {
    std::vector<int64_t> keys;
    for (int64_t i = 0; i < kRisingKeys; ++i) {
      if ((*random)() % 4 == 0) keys.push_back(kTrainers * kKeys + i);
    }
    const auto height = static_cast<float>(1 + (*random)() % 8);
    for (const float value : {height, 0.0f}) {
      const std::vector<float> grads(keys.size() * kDim, value == 0 ? height : -height);
      ASSERT_TRUE(IsOk(Apply(table_.get(), {1}, keys, grads, executor)));
      const int64_t n = static_cast<int64_t>(keys.size()) / 2;
      if ((*random)() % 2 == 0) {
        ASSERT_TRUE(IsOk(keras_sparse::Demote(table_.get(), keys.data(), n)));
      }
      ASSERT_EQ(Lookup(table_.get(), keys, executor),
                std::vector<float>(keys.size() * kDim, value));
    }
  }

  void EvictZeros(Executor* executor) {
    (void)Evict(table_.get(), WeightBelow(1), executor);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  // A checkpoint, or what there was of it before the table changed. In a whole one each row has all
  // updates that were done before. Returns whether it is one.
  bool Save() {
    std::vector<int> done;
    for (const auto& updates : updates_) done.insert(done.end(), updates.begin(), updates.end());
    const TableSnapshot snapshot(table_.get());
    const int64_t version = snapshot.version();
    const TempFolder links;
    std::vector<LinkedFile> files;
    EXPECT_TRUE(IsOk(snapshot.LinkFiles(links / "x-", &files)));
    StoredRecords saved = ReadLinked(files, 4 * kDim);
    RawRows rows;
    Status status;
    for (int64_t cursor = 0; cursor >= 0 && status.ok(); cursor = rows.next_cursor) {
      status = snapshot.Export(kUnlinked, cursor, 500, &rows);
      for (size_t i = 0; i < rows.keys.size(); ++i) {
        saved[rows.keys[i]] = std::string(rows.records.data() + i * 4 * kDim, 4 * kDim);
      }
    }
    if (status.ok()) status = TableSnapshot::MarkSaved({table_.get()}, {version});
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::kFailedPrecondition);
    for (const auto& [key, record] : saved) {
      EXPECT_EQ(record, Repeated(record.substr(0, 4))) << "half an update of key " << key;
    }
    for (size_t key = 0; key < done.size() && status.ok(); ++key) {
      if (done[key] == 0) continue;
      const auto row = saved.find(static_cast<int64_t>(key));
      float value = -1;  // of a row that is not there
      if (row != saved.end()) std::memcpy(&value, row->second.data(), 4);
      EXPECT_GE(value, static_cast<float>(done[key])) << "key " << key;
    }
    return status.ok();
  }

  static std::string Repeated(const std::string& value) {
    std::string record;
    for (int64_t i = 0; i < kDim; ++i) record += value;
    return record;
  }

  static std::vector<int64_t> SomeKeys(int64_t trainer, int64_t n, std::mt19937_64* random) {
    std::vector<int64_t> keys;
    for (int64_t i = 0; i < n; ++i) {
      // Some are used more often, so that they stay in the first tier.
      const auto range = static_cast<uint64_t>((*random)() % 2 == 0 ? kKeys : kKeys / 50);
      keys.push_back(trainer * kKeys + static_cast<int64_t>((*random)() % range));
    }
    return keys;
  }

  TempFolder folder_;
  std::unique_ptr<EmbeddingTable> table_;
  std::vector<std::vector<std::atomic<int>>> updates_ = MakeUpdates();

 private:
  static std::vector<std::vector<std::atomic<int>>> MakeUpdates() {
    std::vector<std::vector<std::atomic<int>>> updates;
    for (int64_t t = 0; t < kTrainers; ++t) updates.emplace_back(kKeys);
    return updates;
  }
};

TEST_P(TierStress, LosesNoUpdate) {
  std::vector<std::function<void(std::mt19937_64*)>> bodies;
  for (int64_t trainer = 0; trainer < kTrainers; ++trainer) {
    bodies.emplace_back([this, trainer](std::mt19937_64* random) {
      ThreadExecutor executor(2);
      for (int i = 0; i < 20; ++i) Train(trainer, random, &executor);
    });
  }
  bodies.emplace_back([this](std::mt19937_64* random) {
    ThreadExecutor executor(2);
    for (int i = 0; i < 20; ++i) Read(random, &executor);
  });
  bodies.emplace_back([this](std::mt19937_64* random) { Demote(random); });
  bodies.emplace_back([this](std::mt19937_64* random) {
    ThreadExecutor executor(2);
    RiseAndFall(random, &executor);
  });
  bodies.emplace_back([this](std::mt19937_64* /*random*/) {
    ThreadExecutor executor(2);
    EvictZeros(&executor);
  });
  bodies.emplace_back([this](std::mt19937_64* /*random*/) {
    (void)Save();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  RunAll(bodies);
  // On a busy machine some threads may not have had a turn.
  for (int i = 0; i < 9 && StatsOf(*table_).evicted_rows == 0; ++i) RunAll(bodies);
  EXPECT_EQ(IdleTier(), "");
  EXPECT_GT(StatsOf(*table_).evicted_rows, 0);
  EXPECT_TRUE(Save()) << "nothing changes any more";
  (void)Evict(table_.get(), WeightBelow(1));

  int64_t updated = 0;
  for (int64_t trainer = 0; trainer < kTrainers; ++trainer) {
    for (int64_t key = 0; key < kKeys; ++key) {
      const int n = updates_[static_cast<size_t>(trainer)][static_cast<size_t>(key)];
      const std::vector<float> row = Lookup(table_.get(), {trainer * kKeys + key});
      ASSERT_EQ(row, std::vector<float>(kDim, static_cast<float>(n)));
      updated += n > 0 ? 1 : 0;
    }
  }
  EXPECT_EQ(NumRowsOf(*table_), updated);
  EXPECT_EQ(static_cast<int64_t>(ExportAll(*table_).size()), updated);
}

// The last tier is a few times what the rows need, so that compaction has to keep up; a middle one
// holds a third of them.
std::vector<Case> Cases() {
  constexpr int64_t kMuch = int64_t{1} << 30;  // LevelDB keeps what it has replaced for a while
  return {
      {"LRU", {"ssdhash"}, {2 << 20}},
      {"LFU", {"ssdhash"}, {2 << 20}, "LFU"},
      {"LRU_AsyncCompaction", {"ssdhash"}, {2 << 20}, "LRU", "1"},
      {"LFU_AsyncCompaction", {"ssdhash"}, {2 << 20}, "LFU", "1"},
      {"Pmem", {"pmem"}, {1 << 20}},
      {"LevelDb", {"leveldb"}, {kMuch}, "LFU"},
      {"PmemSsd", {"pmem", "ssdhash"}, {60000, 2 << 20}, "LFU"},
      {"PmemSsd_AsyncCompaction", {"pmem", "ssdhash"}, {60000, 2 << 20}, "LRU", "1"},
      {"PmemLevelDb", {"pmem", "leveldb"}, {60000, kMuch}},
  };
}

INSTANTIATE_TEST_SUITE_P(Stacks, TierStress, ::testing::ValuesIn(Cases()),
                         [](const auto& param) { return param.param.name; });

}  // namespace keras_sparse::tier_stress_test
