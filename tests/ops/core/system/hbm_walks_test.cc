// Random steps of four tables in a GPU's memory, whose updates take what lookups of theirs have
// found or not, whatever comes in between: they are the tables in memory.
#include <list>
#include <utility>

#include "ops/core/operations/check_room.h"
#include "ops/core/operations/clear_rows.h"
#include "tests/ops/core/device/device_testing.h"
#include "tests/ops/core/device/table_on_device.h"
#include "tests/ops/core/support/eviction_testing.h"
#include "tests/ops/core/support/filter_testing.h"
#include "tests/ops/core/support/hbm_stacks.h"
#include "tests/ops/core/support/thread_executor.h"

namespace keras_sparse::hbm_walks_test {

constexpr int64_t kDim = 5;
constexpr size_t kTables = 4;

// The ids of a table in a step, in memory and, as long as somebody has them, on the GPU.
struct Batch {
  Batch(Device* device, std::vector<int64_t> all_ids, std::vector<int64_t> all_splits)
      : ids(std::move(all_ids)),
        splits(std::move(all_splits)),
        bags(splits.empty() ? NoBags(ids) : BagsOf(Combiner::kMean, splits)),
        there(device, ids, bags) {}
  int64_t num_floats() const { return bags.num_bags * kDim; }

  const std::vector<int64_t> ids;
  const std::vector<int64_t> splits;
  const Bags bags;
  const BagsOnDevice there;
};

class HbmWalk {
 public:
  //   lacks_room  at each allocation of each lookup and update once; then it has some
  HbmWalk(uint64_t seed, bool lacks_room) : state_(seed), lacks_room_(lacks_room) {
    const RuleOptions rule = lacks_room || seed % 2 == 0 ? SgdRule() : AdagradRule(0.1);
    StorageOptions over_memory = HbmOver({"dram"}, 40 * 96, 1 << 20);
    device_ = over_memory.device;
    for (size_t t = 0; t < kTables; ++t) {
      TableOptions options = t == 0 ? Options(70, kDim) : Dynamic(kDim);
      options.out_of_range_is_zero = t == 0;
      plain_.push_back(OpenWithRule(options, rule));
      if (t == 3) options.storage = over_memory;
      options.storage.device = device_;
      on_gpu_.push_back(OpenWithRule(options, rule));
      Both(t, [&](EmbeddingTable* table) {
        if (t == 1) {
          ASSERT_TRUE(IsOk(SetRowLimit(table, 60, MakePolicy(WeightBelow(1.5)))));
        } else if (t == 2 && !lacks_room) {
          ASSERT_TRUE(IsOk(SetFilter(table, Counter(3, seed % 3 == 0))));
        }
      });
    }
  }

  void Go(int num_steps) {
    for (int step = 0; step < num_steps; ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      const uint64_t drawn = Draw(12);
      if (drawn < 5) {
        LookUp();
      } else if (drawn < 9) {
        Update();
      } else {
        Change(1 + Draw(kTables - 1));
      }
      ExpectSame();
      if (::testing::Test::HasFatalFailure()) return;
    }
  }

 private:
  uint64_t Draw(uint64_t below) { return NextRandom(&state_) % below; }

  void Both(size_t t, const std::function<void(EmbeddingTable*)>& change) {
    change(plain_[t].get());
    change(on_gpu_[t].get());
  }
  // Of a lookup: those of an earlier one, or others, of which the last three stay.
  std::shared_ptr<Batch> BatchOf(size_t t) {
    std::vector<std::shared_ptr<Batch>>& batches = batches_[t];
    if (!batches.empty() && Draw(3) == 0) {
      std::swap(batches[Draw(batches.size())], batches.back());
      return batches.back();
    }
    std::vector<int64_t> splits;
    if (Draw(2) == 0) splits = RandomSplits(8, 4, Draw(1 << 20));
    const auto num_ids = splits.empty() ? static_cast<int64_t>(Draw(25)) : splits.back();
    batches.push_back(
        std::make_shared<Batch>(device_.get(), RandomIds(num_ids, -2, 90, Draw(1 << 20)), splits));
    if (batches.size() > 3) batches.erase(batches.begin());
    return batches.back();
  }
  Status WithoutRoom(const std::function<Status()>& work) const {
    if (!lacks_room_) return work();
    FailAtEachAllocation(work, [] {});
    return Status::Ok();
  }

  // Of some of the tables, in one op.
  void LookUp() {
    std::vector<LookupRequest> there;
    std::vector<LookupRequest> here;
    std::vector<DeviceArray<float>> rows_there(kTables);
    std::vector<std::vector<float>> rows(kTables);
    for (size_t t = 0; t < kTables; ++t) {
      if (Draw(3) == 0) continue;
      const std::shared_ptr<Batch> batch = BatchOf(t);
      rows[t].resize(static_cast<size_t>(batch->num_floats()));
      ASSERT_TRUE(IsOk(DeviceArray<float>::Copy(device_.get(), rows[t], &rows_there[t])));
      here.push_back({plain_[t].get(), batch->ids.data(), batch->bags, rows[t].data()});
      there.push_back(
          {on_gpu_[t].get(), batch->there.ids(), batch->there.bags(), rows_there[t].data()});
      if (Draw(5) > 0) there.back().ids_owner = batch;
      unchecked_[t].push_back(batch);
    }
    if (here.empty()) return;
    ASSERT_TRUE(IsOk(LookupRows(here, Inline())));
    ASSERT_TRUE(IsOk(WithoutRoom([&] { return LookupRows(there, Inline()); })));
    for (size_t t = 0; t < kTables; ++t) ASSERT_EQ(Bits(Values(rows_there[t])), Bits(rows[t]));
  }

  void Update() {
    std::vector<ApplyRequest> there;
    std::vector<ApplyRequest> here;
    std::list<std::vector<float>> grads;
    std::vector<DeviceCopies> copies;
    for (size_t t = 0; t < kTables; ++t) {
      copies.emplace_back(*on_gpu_[t]);
      if (batches_[t].empty() || Draw(3) == 0) continue;
      here.push_back({plain_[t].get(), {}, RuleGenerationOf(*plain_[t]), {0.1f}});
      there.push_back({on_gpu_[t].get(), {}, RuleGenerationOf(*on_gpu_[t]), {0.1f}});
      const size_t last = batches_[t].size() - 1;  // that of the last lookup
      for (uint64_t lookups = 1 + Draw(2) * Draw(3); lookups > 0; --lookups) {
        const Batch& batch = *batches_[t][Draw(4) > 0 ? last : Draw(last + 1)];
        grads.push_back(RandomFloats(batch.num_floats(), Draw(1 << 20)));
        const float* values = grads.back().data();
        here.back().gradients.push_back({batch.ids.data(), batch.bags, values, kDim});
        there.back().gradients.push_back({batch.there.ids(), batch.there.bags(),
                                          copies[t].Of(values, batch.num_floats()), kDim});
      }
    }
    if (here.empty()) return;
    const Status expected = ApplyGradients(here, Inline());  // one may have no room for its rows
    Status status;
    const auto update = [&] { return status = ApplyGradients(there, Inline()); };
    if (expected.ok()) {
      (void)WithoutRoom(update);
    } else {
      (void)update();
    }
    ASSERT_EQ(status.code(), expected.code()) << status.message();
  }

  // Of a dynamic table.
  void Change(size_t t) {
    const std::vector<int64_t> keys = RandomIds(20, -2, 90, Draw(1 << 20));
    const std::vector<float> rows = RandomFloats(20 * kDim, Draw(1 << 20));
    const auto n = static_cast<int64_t>(1 + Draw(20));
    const uint64_t what = Draw(25);
    Both(t, [&](EmbeddingTable* table) {
      if (what < 6) {
        ASSERT_TRUE(IsOk(EraseRows(table, keys.data(), n, Inline())));
      } else if (what < 12) {
        ASSERT_TRUE(IsOk(ImportRows(table, keys.data(), n, rows.data(), kDim, Inline())));
      } else if (what < 18) {
        (void)Evict(table, WeightBelow(1));
      } else if (what < 24) {
        Promotion promotion;
        ASSERT_TRUE(IsOk(PromoteRows(table, keys.data(), n, Inline(), &promotion)));
      } else {
        ASSERT_TRUE(IsOk(ClearRows(table, Inline())));
      }
    });
  }

  void ExpectSame() {
    const bool checks = Draw(2) == 0;  // or the update does
    for (size_t t = 0; t < kTables; ++t) {
      SCOPED_TRACE("table " + std::to_string(t));
      ASSERT_EQ(ExportAll(*on_gpu_[t]), ExportAll(*plain_[t]));
      if (!checks) continue;
      StepIds looked_up = {on_gpu_[t].get(), {}};
      for (const auto& batch : unchecked_[t]) {
        looked_up.lookups.push_back({batch->there.ids(), batch->bags.num_ids});
      }
      ASSERT_TRUE(IsOk(CheckLookups({looked_up})));
      unchecked_[t].clear();
      const TableStats stats = StatsOf(*on_gpu_[t]);
      const TableStats expected = StatsOf(*plain_[t]);
      ASSERT_EQ(stats.created_rows, expected.created_rows);
      ASSERT_EQ(stats.lookups, expected.lookups);
      ASSERT_EQ(stats.hits, expected.hits);
      ASSERT_EQ(stats.out_of_range_ids, expected.out_of_range_ids);
      ASSERT_EQ(stats.filtered_ids, expected.filtered_ids);
      ASSERT_EQ(stats.evicted_rows, expected.evicted_rows);
    }
  }

  uint64_t state_;
  const bool lacks_room_;
  std::shared_ptr<Device> device_;
  std::vector<std::unique_ptr<EmbeddingTable>> plain_;
  std::vector<std::unique_ptr<EmbeddingTable>> on_gpu_;
  std::vector<std::vector<std::shared_ptr<Batch>>> batches_{kTables};
  std::vector<std::vector<std::shared_ptr<Batch>>> unchecked_{kTables};  // of lookups
};

TEST(HbmWalks, AreThoseOfTablesInMemory) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    HbmWalk(seed, false).Go(60);
    if (HasFatalFailure()) return;
  }
}

// An update that fails for want of memory is no step of SGD's.
TEST(HbmWalks, GoOnWhereTheGpuHasNoRoom) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    HbmWalk(seed, true).Go(60);
    if (HasFatalFailure()) return;
  }
}

TEST(HbmWalks, OfThreadsOnOneTableAreAllMade) {
  constexpr int64_t kThreads = 3;
  constexpr uint64_t kSteps = 100;
  TableOptions options = Dynamic(kDim);
  const auto plain = OpenWithRule(options, SgdRule());
  options.storage.device = OpenDevice();
  const auto table = OpenWithRule(options, SgdRule());
  const std::vector<float> grads(20 * kDim, 1);
  const auto ids_of = [](int64_t thread, uint64_t step) {
    return RandomIds(20, 1000 * thread, 1000 * thread + 60, step);
  };
  InThreads(kThreads, [&](int64_t t) {
    for (uint64_t step = 0; step < kSteps; ++step) {
      const std::vector<int64_t> ids = ids_of(t, step);
      (void)Lookup(table.get(), ids);
      ASSERT_TRUE(IsOk(Subtract(table.get(), ids, grads)));
      if (step % 10 == 9) {
        ASSERT_TRUE(IsOk(EraseRows(table.get(), ids.data(), 5, Inline())));
      }
    }
  });
  for (int64_t t = 0; t < kThreads; ++t) {
    for (uint64_t step = 0; step < kSteps; ++step) {
      const std::vector<int64_t> ids = ids_of(t, step);
      ASSERT_TRUE(IsOk(Subtract(plain.get(), ids, grads)));
      if (step % 10 == 9) {
        ASSERT_TRUE(IsOk(EraseRows(plain.get(), ids.data(), 5, Inline())));
      }
    }
  }
  EXPECT_EQ(ExportAll(*table), ExportAll(*plain));
}

}  // namespace keras_sparse::hbm_walks_test
