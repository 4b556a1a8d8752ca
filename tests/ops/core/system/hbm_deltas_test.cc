// What has changed in a table in a GPU's memory since it was saved: as in one in memory.

#include "ops/core/operations/clear_rows.h"
#include "tests/ops/core/device/device_testing.h"
#include "tests/ops/core/support/eviction_testing.h"
#include "tests/ops/core/support/hbm_stacks.h"
#include "tests/ops/core/support/snapshot_testing.h"

namespace keras_sparse::hbm_deltas_test {

constexpr int64_t kDim = 8;
constexpr int64_t kKeys = 300;

// A table in a GPU's memory and one in the CPU's, which do the same and are saved alike.
class Twins {
 public:
  Twins(TableOptions options, const StorageOptions& on_gpu) {
    tables_[0] = OpenWithRule(options, AdamRule());
    options.storage = on_gpu;
    tables_[1] = OpenWithRule(options, AdamRule());
  }

  EmbeddingTable* on_gpu() { return tables_[1].get(); }

  void Do(const std::function<Status(EmbeddingTable*)>& change) {
    for (const auto& table : tables_) ASSERT_TRUE(IsOk(change(table.get())));
  }
  void Update(const std::vector<int64_t>& ids, uint64_t seed) {
    const auto n = static_cast<int64_t>(ids.size());
    Do([&](EmbeddingTable* table) {
      return Apply(table, {0.1f, 0.1f}, ids, RandomFloats(n * kDim, seed));
    });
  }
  void Import(const std::vector<int64_t>& keys, uint64_t seed) {
    const auto n = static_cast<int64_t>(keys.size());
    Do([&](EmbeddingTable* table) { return ImportAll(table, keys, RandomFloats(n * kDim, seed)); });
  }

  void SaveAll() {
    for (size_t i = 0; i < 2; ++i) saved_[i].SaveAll(tables_[i].get());
    Check();
  }
  void SaveChanges() {
    if (TableSnapshot(tables_[0].get()).is_everything_changed()) return SaveAll();
    ExpectSameChanges();
    for (size_t i = 0; i < 2; ++i) saved_[i].SaveChanges(tables_[i].get());
    Check();
  }
  // Reads all that a delta has, and then the disk is full: nothing of it counts as saved.
  void FailToSave() {
    const int64_t version = TableSnapshot(on_gpu()).version();
    (void)ExportRaw(on_gpu(),
                    TableSnapshot(on_gpu()).is_everything_changed() ? RawSelection() : kChanged);
    EXPECT_FALSE(TableSnapshot::MarkSaved({on_gpu()}, {version - 1}).ok());
  }

  void ExpectSameChanges() {
    const StoredRecords changed = ExportRaw(on_gpu(), kChanged, 30);
    EXPECT_EQ(changed, ExportRaw(tables_[0].get(), kChanged));
    EXPECT_EQ(ExportRaw(on_gpu(), kChanged, 1), changed);
  }

 private:
  // What has been saved is the table, and both are alike.
  void Check() {
    const StoredRecords now = ExportRaw(on_gpu());
    ASSERT_EQ(saved_[1].Load(), now);
    ASSERT_EQ(saved_[0].Load(), ExportRaw(tables_[0].get()));
    ASSERT_EQ(ExportAll(*tables_[0]), ExportAll(*tables_[1]));
    ASSERT_FALSE(TableSnapshot(on_gpu()).is_everything_changed());
    ASSERT_TRUE(ExportRaw(on_gpu(), kChanged).empty());
  }

  std::unique_ptr<EmbeddingTable> tables_[2];
  SavedTable saved_[2];
};

struct Case {
  std::string name;
  bool is_dynamic;
  Tiers below = {};
};

class HbmDeltas : public ::testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Of, HbmDeltas,
                         ::testing::Values(Case{"a_static_table", false},
                                           Case{"a_dynamic_table", true},
                                           Case{"a_table_over_memory", true, {"dram"}},
                                           Case{"a_table_over_an_ssd", true, {"dram", "ssdhash"}}),
                         [](const auto& param) { return param.param.name; });

TEST_P(HbmDeltas, AreThoseOfTheTableInMemoryWhateverHappens) {
  const TempFolder folder;
  const Case& each = GetParam();
  for (unsigned seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    StorageOptions storage;
    storage.device = OpenDevice();
    if (!each.below.empty()) {
      storage = HbmOver(each.below, 40 * 160, 4000, folder / std::to_string(seed));
    }
    Twins twins(Options(each.is_dynamic ? -1 : kKeys, kDim), storage);
    std::mt19937 random(seed);
    const auto some_ids = [&](int64_t n) { return RandomIds(n, 0, kKeys - 1, random()); };
    for (int step = 0; step < 40; ++step) {
      switch (random() % (each.is_dynamic ? 10 : 8)) {
        case 0:
          twins.Import(some_ids(20), random());
          break;
        case 1:
          twins.SaveAll();
          break;
        case 2:
        case 3:
          twins.SaveChanges();
          break;
        case 4:
          twins.FailToSave();
          break;
        case 5:
          if (random() % 8 == 0) twins.Do([](auto* table) { return ClearRows(table, Inline()); });
          break;
        case 8:
          twins.Do([ids = some_ids(15)](auto* table) { return EraseRows(table, ids); });
          break;
        case 9:
          twins.Do([](auto* table) {
            (void)Evict(table, WeightBelow(0.8));
            return Status::Ok();
          });
          break;
        default:
          twins.Update(some_ids(30), random());
      }
      if (::testing::Test::HasFatalFailure()) return;
    }
    twins.SaveChanges();
  }
}

TEST(HbmDeltasOf, RowsThatGoDownAndComeUpAreInThemOnce) {
  Twins twins(Dynamic(kDim), HbmOver({"dram"}, 10 * 160, 1));
  twins.Update(Range(0, 100), 1);
  twins.SaveAll();
  twins.Update({3, 4}, 2);
  for (uint64_t step = 0; step < 6; ++step) {  // which take the place of these
    twins.Update(Range(100 + 10 * static_cast<int64_t>(step), 112), step);
  }
  twins.Update({3}, 3);
  twins.ExpectSameChanges();
  twins.SaveChanges();
  twins.ExpectSameChanges();
}

TEST(HbmDeltasOf, EveryRowCountsAgainWithAnotherRule) {
  StorageOptions storage;
  storage.device = OpenDevice();
  Twins twins(Options(50, kDim), storage);
  twins.SaveAll();
  twins.Do([](auto* table) { return SetRule(table, AdagradRule(0.1), Inline()); });
  EXPECT_TRUE(TableSnapshot(twins.on_gpu()).is_everything_changed());
  twins.SaveAll();
}

#ifndef __CUDACC__
TEST(HbmDeltasOf, AllRowsAreWrittenWhereTheGpuHasNoRoomToKeepChanges) {
  StorageOptions storage;
  storage.device = OpenDevice();
  const auto table = OpenWithRule(
      [&] {
        TableOptions options = Options(50, kDim);
        options.storage = storage;
        return options;
      }(),
      SgdRule());
  emulated::options().allocations_left = 0;
  EXPECT_TRUE(IsOk(MarkSaved(table.get())));
  emulated::options().allocations_left = INT64_MAX;
  EXPECT_TRUE(TableSnapshot(table.get()).is_everything_changed());
  EXPECT_TRUE(IsOk(MarkSaved(table.get())));
  EXPECT_FALSE(TableSnapshot(table.get()).is_everything_changed());
}

TEST(HbmDeltasOf, RowsThatAnUpdateWithoutRoomHasMadeAreInThem) {
  TableOptions options = Dynamic(kDim);
  options.storage.device = OpenDevice();
  const auto table = OpenWithRule(options, SgdRule());
  const std::vector<int64_t> ids = Range(100, 150);
  const std::vector<float> grads(ids.size() * kDim, 1);
  ASSERT_TRUE(IsOk(Subtract(table.get(), Range(0, 50), grads)));
  ASSERT_TRUE(IsOk(MarkSaved(table.get())));
  // The emulated GPU's memory is that of the process.
  const ApplyRequest request = Request(table.get(), ids, NoBags(ids), grads);
  size_t num_made = 0;
  FailAtEachAllocation([&] { return ApplyGradients({request}, Inline()); },
                       [&] {
                         std::set<int64_t> made = KeysOf(ExportRaw(table.get()));
                         for (const int64_t old : Range(0, 50)) made.erase(old);
                         EXPECT_EQ(KeysOf(ExportRaw(table.get(), kChanged)), made);
                         num_made = made.size();
                       });
  EXPECT_EQ(num_made, ids.size());  // before the update itself had no room
}
#endif

// Of a table that has grown since it was saved, and of more rows than are read at once.
TEST(HbmDeltasOf, ATableOfManyRowsAreWrittenInPieces) {
  TableOptions options = Dynamic(1);
  options.storage.device = OpenDevice();
  const auto table = OpenWithRule(options, SgdRule());
  const auto update = [&](const std::vector<int64_t>& ids) {
    return Subtract(table.get(), ids, std::vector<float>(ids.size(), 1));
  };
  ASSERT_TRUE(IsOk(update(Range(0, 1000))));
  ASSERT_TRUE(IsOk(MarkSaved(table.get())));
  std::vector<int64_t> ids = Range(5000, 30000);
  ids.push_back(7);
  ASSERT_TRUE(IsOk(update(ids)));
  const StoredRecords changed = ExportRaw(table.get(), kChanged, 1000);
  EXPECT_EQ(KeysOf(changed), std::set<int64_t>(ids.begin(), ids.end()));
}

}  // namespace keras_sparse::hbm_deltas_test
