// An update takes the rows that the lookup of its step has found, where they still are those of its
// ids.
#include "ops/core/ids/cached_row_indices.h"

#include <utility>

#include "ops/core/operations/check_room.h"
#include "ops/core/operations/clear_rows.h"
#include "tests/ops/core/device/device_testing.h"
#include "tests/ops/core/device/table_on_device.h"
#include "tests/ops/core/support/eviction_testing.h"
#include "tests/ops/core/support/hbm_stacks.h"

namespace keras_sparse::cached_row_indices_test {

constexpr int64_t kDim = 5;
constexpr int64_t kRows = 90;

// A table on a GPU, the same one in memory, and what a step does to both.
class Twins {
 public:
  //   storage  on a GPU; if null, its memory alone
  explicit Twins(TableOptions options, const StorageOptions* storage = nullptr)
      : plain_(OpenWithRule(options, AdagradRule(0.1))) {
    if (storage == nullptr) {
      options.storage.device = OpenDevice();
    } else {
      options.storage = *storage;
    }
    on_gpu_ = OpenWithRule(options, AdagradRule(0.1));
  }

  EmbeddingTable* on_gpu() const { return on_gpu_.get(); }
  EmbeddingTable* plain() const { return plain_.get(); }

  void Both(const std::function<void(EmbeddingTable*)>& change) const {
    change(plain());
    change(on_gpu());
  }
  void LookUp(const std::vector<int64_t>& ids) const {
    ASSERT_EQ(Bits(Lookup(on_gpu(), ids)), Bits(Lookup(plain(), ids)));
  }
  void Update(const std::vector<int64_t>& ids, uint64_t seed) const {
    const std::vector<float> grads = RandomFloats(static_cast<int64_t>(ids.size()) * kDim, seed);
    Both([&](EmbeddingTable* table) { ASSERT_TRUE(IsOk(Apply(table, {0.1f}, ids, grads))); });
  }
  void ExpectSame() const {
    EXPECT_EQ(ExportAll(*on_gpu()), ExportAll(*plain()));
    EXPECT_EQ(StatsOf(*on_gpu()).created_rows, StatsOf(*plain()).created_rows);
    EXPECT_EQ(StatsOf(*on_gpu()).hits, StatsOf(*plain()).hits);
  }

 private:
  std::unique_ptr<EmbeddingTable> plain_;
  std::unique_ptr<EmbeddingTable> on_gpu_;
};

Device* DeviceOf(const Twins& tables) { return tables.on_gpu()->options().storage.device.get(); }

// The ids stay where they are while the table keeps them.
Status LookUpAndKeep(EmbeddingTable* table, const std::shared_ptr<BagsOnDevice>& lists) {
  DeviceArray<float> rows;
  const int64_t size = lists->bags().num_bags * kDim;
  EXPECT_TRUE(
      IsOk(DeviceArray<float>::Allocate(table->options().storage.device.get(), size, &rows)));
  LookupRequest request = {table, lists->ids(), lists->bags(), rows.data()};
  request.ids_owner = lists;
  return LookupRows({request}, Inline());
}

std::vector<TableOptions> BothKinds() {
  TableOptions of_rows = Options(kRows, kDim);
  of_rows.out_of_range_is_zero = true;
  return {of_rows, Dynamic(kDim)};
}

TEST(CachedRowIndices, AreThoseOfAnUpdateOfTheSameIds) {
  InAnyOrder([] {
    for (const TableOptions& options : BothKinds()) {
      const Twins tables(options);
      for (uint64_t step = 1; step <= 12; ++step) {
        const auto most = static_cast<int64_t>(9 * step);  // with new keys, and ids outside
        const std::vector<int64_t> ids = RandomIds(40, -3, most, step);
        tables.LookUp(ids);
        tables.Update(ids, step);
      }
      tables.ExpectSame();
    }
  });
}

TEST(CachedRowIndices, AreThoseOfBags) {
  InAnyOrder([] {
    for (const TableOptions& options : BothKinds()) {
      const Twins tables(options);
      for (uint64_t step = 1; step <= 6; ++step) {
        const std::vector<int64_t> splits = RandomSplits(20, 5, step);
        const std::vector<int64_t> ids = RandomIds(splits.back(), 0, 30, step);
        const Bags bags = BagsOf(Combiner::kMean, splits);
        const std::vector<float> grads = RandomFloats(20 * kDim, step);
        ASSERT_EQ(Bits(Pool(tables.on_gpu(), ids, bags)), Bits(Pool(tables.plain(), ids, bags)));
        ASSERT_TRUE(
            IsOk(ApplyOnDevice({Request(tables.on_gpu(), ids, bags, grads, {0.1f})}, Inline())));
        ASSERT_TRUE(
            IsOk(ApplyGradients({Request(tables.plain(), ids, bags, grads, {0.1f})}, Inline())));
      }
      tables.ExpectSame();
    }
  });
}

#ifndef __CUDACC__
int64_t CopiesToHostOf(const std::function<void()>& work) {
  const int64_t before = emulated::counts().copies_to_host;
  work();
  return emulated::counts().copies_to_host - before;
}

TEST(CachedRowIndices, MakeAnUpdateWaitForNothing) {
  for (const TableOptions& options : BothKinds()) {
    const Twins tables(options);
    const std::vector<int64_t> ids = RandomIds(40, 0, kRows - 1, 1);
    const std::vector<int64_t> others = RandomIds(40, 0, kRows - 1, 2);
    const auto update = [&] { tables.Update(ids, 1); };
    tables.LookUp(ids);
    update();
    EXPECT_GT(CopiesToHostOf(update), 0);  // no lookup has kept them
    tables.LookUp(ids);
    EXPECT_EQ(CopiesToHostOf(update), 0);
    EXPECT_GT(CopiesToHostOf(update), 0);  // they were those of a step
    tables.LookUp(ids);
    tables.LookUp(others);
    EXPECT_GT(CopiesToHostOf(update), 0);
    tables.ExpectSame();
  }
}
#endif

// Whatever comes in between: rows may have gone, come, or moved.
TEST(CachedRowIndices, AreForgottenWhereRowsComeOrGo) {
  const std::vector<int64_t> ids = RandomIds(60, 0, kRows - 1, 1);
  const std::vector<int64_t> others = RandomIds(60, 50, 2 * kRows, 2);
  const std::vector<float> rows = RandomFloats(60 * kDim, 3);
  const std::vector<std::pair<std::string, std::function<void(EmbeddingTable*)>>> changes = {
      {"erase",
       [&](EmbeddingTable* table) {
         ASSERT_TRUE(IsOk(EraseRows(table, ids.data(), 20, Inline())));
       }},
      {"erase and make anew",
       [&](EmbeddingTable* table) {
         ASSERT_TRUE(IsOk(EraseRows(table, ids.data(), 60, Inline())));
         ASSERT_TRUE(IsOk(ImportAll(table, others, rows)));
         ASSERT_TRUE(IsOk(ImportRows(table, ids.data() + 30, 30, rows.data(), kDim, Inline())));
       }},
      {"import", [&](EmbeddingTable* table) { ASSERT_TRUE(IsOk(ImportAll(table, ids, rows))); }},
      {"clear", [](EmbeddingTable* table) { ASSERT_TRUE(IsOk(ClearRows(table, Inline()))); }},
      {"evict", [](EmbeddingTable* table) { ASSERT_GT(Evict(table, WeightBelow(1.2)), 0); }},
      {"update",
       [&](EmbeddingTable* table) { ASSERT_TRUE(IsOk(Apply(table, {0.1f}, others, rows))); }},
      {"reserve",
       [&](EmbeddingTable* table) {
         const std::vector<int64_t> many = Range(1000, 9000);
         ASSERT_TRUE(IsOk(CheckUpdate(table, many.data(), 8000, Inline())));
       }},
      {"another rule", [](EmbeddingTable* table) {
         ASSERT_TRUE(IsOk(SetRule(table, AdagradRule(0.3), Inline())));
       }}};
  const StorageOptions over_memory = HbmOver({"dram"}, 40 * 96, 1 << 20);
  for (const bool is_over_memory : {false, true}) {
    for (const auto& [name, change] : changes) {
      for (const bool has_rows : {false, true}) {
        SCOPED_TRACE(name + (is_over_memory ? ", over memory" : "") + (has_rows ? ", rows" : ""));
        if (name == "evict" && !has_rows) continue;
        const Twins tables(Dynamic(kDim), is_over_memory ? &over_memory : nullptr);
        if (has_rows) tables.Update(ids, 4);
        tables.LookUp(ids);
        tables.Both(change);
        tables.Update(ids, 5);
        tables.ExpectSame();
        tables.LookUp(ids);
        tables.Update(ids, 6);
        tables.ExpectSame();
      }
    }
  }
}

TEST(CachedRowIndices, AreLetGoWithTheirStep) {
  constexpr size_t kMostKept = 4;  // lookups without an update
  for (const TableOptions& options : BothKinds()) {
    Twins tables(options);
    const std::vector<int64_t> ids = {1, 2, 3};
    tables.Update(ids, 1);
    std::vector<std::weak_ptr<BagsOnDevice>> made;
    const auto look_up = [&] {
      const auto lists = std::make_shared<BagsOnDevice>(DeviceOf(tables), ids, NoBags(ids));
      ASSERT_TRUE(IsOk(LookUpAndKeep(tables.on_gpu(), lists)));
      made.push_back(lists);
    };
    while (made.size() <= kMostKept) look_up();
    EXPECT_TRUE(made[0].expired());
    EXPECT_FALSE(made[1].expired());
    tables.Update({5}, 2);
    for (const auto& each : made) EXPECT_TRUE(each.expired());
    look_up();
    tables.Update(ids, 3);
    EXPECT_TRUE(made.back().expired());
    look_up();
    tables = Twins(options);
    EXPECT_TRUE(made.back().expired());
  }
}

// The lookup has not waited to learn of the id. The check or the update of its ids says it, and no
// update of others.
TEST(CachedRowIndices, SayWhatTheirLookupRefuses) {
  const std::vector<int64_t> ids = {1, kRows, 3};
  const std::vector<float> grads = RandomFloats(3 * kDim, 2);
  for (const bool has_check : {true, false}) {
    for (const bool loses_rows : {true, false}) {
      const Twins tables(Options(kRows, kDim));
      EmbeddingTable* table = tables.on_gpu();
      const auto lists = std::make_shared<BagsOnDevice>(DeviceOf(tables), ids, NoBags(ids));
      ASSERT_TRUE(IsOk(LookUpAndKeep(table, lists)));
      if (loses_rows) tables.Update({2}, 1);
      const auto before = ExportAll(*table);
      const auto check = [&] { return CheckLookups({{table, {{lists->ids(), 3}}}}); };
      const auto update = [&] {
        DeviceCopies copies(*table);
        ApplyRequest request = Request(table, ids, NoBags(ids), grads, {0.1f});
        request.gradients[0].ids = lists->ids();
        request.gradients[0].grads.data = copies.Of(grads.data(), 3 * kDim);
        return ApplyGradients({request}, Inline());
      };
      EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "Received: ids[1] = 90",
                            has_check ? check() : update()));
      EXPECT_EQ(lists.use_count(), 1);
      EXPECT_TRUE(IsOk(check()));  // which has been said
      EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "Received: ids[1] = 90", update()));
      EXPECT_EQ(ExportAll(*table), before);
    }
  }
}

// The ids of a lookup do not say that other splits are sound.
TEST(CachedRowIndices, HaveBagsOfTheirOwn) {
  for (const TableOptions& options : BothKinds()) {
    const Twins tables(options);
    const std::vector<int64_t> ids = {1, 2, 3};
    tables.Update(ids, 1);
    const auto before = ExportAll(*tables.on_gpu());
    const std::vector<int64_t> splits = {0, 2, 2, 3};
    const std::vector<int64_t> falling = {0, 2, 1, 3};
    const std::vector<float> grads = RandomFloats(3 * kDim, 2);
    for (const Bags& bags : {NoBags(ids), BagsOf(Combiner::kSum, splits)}) {
      const auto lists = std::make_shared<BagsOnDevice>(DeviceOf(tables), ids, bags);
      ASSERT_TRUE(IsOk(LookUpAndKeep(tables.on_gpu(), lists)));
      ApplyRequest request =
          Request(tables.on_gpu(), ids, BagsOf(Combiner::kSum, falling), grads, {0.1f});
      request.gradients[0].ids = lists->ids();
      DeviceCopies copies(*tables.on_gpu());
      request.gradients[0].bags = copies.Of(request.gradients[0].bags);
      request.gradients[0].grads.data = copies.Of(grads.data(), 3 * kDim);
      EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "does not, at row_splits[1]",
                            ApplyGradients({request}, Inline())));
      EXPECT_EQ(ExportAll(*tables.on_gpu()), before);
    }
  }
}

}  // namespace keras_sparse::cached_row_indices_test
