#include "ops/core/staging/lookup_prefetcher.h"

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "tests/ops/core/support/testing.h"

namespace keras_sparse::lookup_prefetcher_test {

class Number : public StagedRows {
 public:
  explicit Number(int64_t number) : value(number) {}
  const int64_t value;
};

// What a step gets for a lookup: the number that was staged, or -1 if it has to do it itself.
constexpr int64_t kMissed = -1;

// A stage, and one table's area.
class Staging {
 public:
  Staging(int64_t num_threads, int64_t capacity) {
    EXPECT_TRUE(IsOk(LookupPrefetcher::Open({num_threads, capacity}, &stage)));
  }
  ~Staging() { stage->Stop(); }

  static Fingerprint Of(int64_t number) { return {static_cast<uint64_t>(number), 5}; }

  std::shared_ptr<StagedLookup> Lookup(int64_t number, StagedLookup::Work work = nullptr) {
    if (work == nullptr) {
      work = [number](std::unique_ptr<StagedRows>* rows) {
        *rows = std::make_unique<Number>(number);
        return Status::Ok();
      };
    }
    return std::make_shared<StagedLookup>(Of(number), area, std::move(work));
  }
  void Stage(int64_t number) { stage->Stage(number, {Lookup(number)}); }
  void StageAll(int64_t begin, int64_t end) {
    for (int64_t number = begin; number < end; ++number) Stage(number);
  }

  // As the step's op does it.
  int64_t Use(int64_t number, Status* status = nullptr) {
    const std::shared_ptr<StagedLookup> lookup =
        area->MayHaveAny() ? area->Take(Of(number)) : nullptr;
    if (lookup == nullptr) return kMissed;
    std::unique_ptr<StagedRows> rows;
    int64_t waited_ns = 0;
    const Status used = lookup->Use(&rows, &waited_ns);
    if (status != nullptr) {
      *status = used;
    } else {
      EXPECT_TRUE(IsOk(used));
    }
    return rows == nullptr ? kMissed : static_cast<const Number&>(*rows).value;
  }
  // Uses a batch that may not have been begun with.
  int64_t UseWhenReady(int64_t number, int64_t num_ready) {
    WaitFor(num_ready);
    return Use(number);
  }
  void WaitFor(int64_t num_ready) const {
    while (stage->num_ready() < num_ready) std::this_thread::yield();
  }

  std::shared_ptr<LookupPrefetcher> stage;
  std::shared_ptr<PrefetchBuffer> area = std::make_shared<PrefetchBuffer>();
};

TEST(LookupPrefetcher, MakesLookupsReadyForTheirSteps) {
  Staging staging(2, 3);
  staging.StageAll(0, 3);
  for (int64_t number = 0; number < 3; ++number) {
    EXPECT_EQ(staging.UseWhenReady(number, 3 - number), number);
  }
  EXPECT_EQ(staging.Use(1), kMissed) << "each is there once";
  EXPECT_EQ(staging.area->counts().staged, 3);
  EXPECT_EQ(staging.area->counts().dropped, 0);
}

TEST(LookupPrefetcher, HasNoMoreBatchesReadyThanItsCapacity) {
  Staging staging(2, 2);
  std::atomic<int64_t> num_done{0};
  for (int64_t number = 0; number < 5; ++number) {
    staging.stage->Stage(number, {staging.Lookup(number, [&](std::unique_ptr<StagedRows>*) {
                           ++num_done;
                           return Status::Ok();
                         })});
  }
  staging.WaitFor(2);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(num_done, 2);
  (void)staging.Use(0);
  while (num_done < 3) std::this_thread::yield();
  EXPECT_LE(staging.stage->num_ahead(), 2);
}

TEST(LookupPrefetcher, LetsAStepWaitForWhatIsInWork) {
  Staging staging(1, 1);
  int64_t waited_ns = 0;
  // A busy machine may let the step run only when the work is done: then with longer work.
  for (int milliseconds = 5; waited_ns < 1000000 && milliseconds < 10000; milliseconds *= 2) {
    std::promise<void> begun;
    staging.stage->Stage(7, {staging.Lookup(7, [&](std::unique_ptr<StagedRows>* rows) {
                           begun.set_value();
                           std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
                           *rows = std::make_unique<Number>(7);
                           return Status::Ok();
                         })});
    begun.get_future().wait();
    const std::shared_ptr<StagedLookup> lookup = staging.area->Take(Staging::Of(7));
    std::unique_ptr<StagedRows> rows;
    ASSERT_TRUE(IsOk(lookup->Use(&rows, &waited_ns)));
    EXPECT_NE(rows, nullptr);
    EXPECT_GT(lookup->work_ns(), 1000000);
  }
  EXPECT_GT(waited_ns, 1000000);
}

TEST(LookupPrefetcher, DropsABatchThatItsStepHasOvertaken) {
  Staging staging(1, 1);
  staging.StageAll(0, 2);
  staging.WaitFor(1);
  EXPECT_EQ(staging.Use(1), kMissed) << "the stage is full with batch 0";
  EXPECT_EQ(staging.area->counts().dropped, 2) << "and batch 0 was in the way";
  staging.Stage(2);
  EXPECT_EQ(staging.UseWhenReady(2, 1), 2);
}

TEST(LookupPrefetcher, GetsOverBatchesThatNobodyUses) {
  Staging staging(2, 2);
  staging.StageAll(0, 4);  // of data that is left behind, as the first batches are ready
  staging.WaitFor(2);
  int64_t num_used = 0;
  for (int64_t number = 10; number < 3000 && num_used <= 5; ++number) {
    staging.Stage(number);
    staging.Stage(number + 1000000);  // left out by the data's user
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (number >= 13) num_used += staging.Use(number - 3) == number - 3 ? 1 : 0;
  }
  EXPECT_GT(num_used, 5);
  EXPECT_LE(staging.stage->num_ahead(), 2);
}

TEST(LookupPrefetcher, KeepsNoMoreThan192Batches) {
  Staging staging(1, 2);
  const auto content = std::make_shared<int>(0);
  for (int64_t number = 0; number < 1000; ++number) {
    staging.stage->Stage(number,
                         {staging.Lookup(number, [content](auto*) { return Status::Ok(); })});
    EXPECT_LE(content.use_count(), 1 + 192) << "after " << number;
  }
  EXPECT_EQ(staging.area->counts().dropped, 1000 - 192) << "of the oldest ones";
  staging.stage->Stop();
  EXPECT_EQ(staging.area->counts().dropped, 1000);
}

TEST(LookupPrefetcher, ServesStepsInAnotherOrder) {
  Staging staging(2, 8);
  int64_t num_used = 0;
  for (int64_t first = 0; first < 80; first += 4) {
    staging.StageAll(first, first + 4);
    staging.WaitFor(4);
    for (const int64_t number : {2, 0, 3, 1}) {
      num_used += staging.Use(first + number) == first + number ? 1 : 0;
    }
  }
  EXPECT_EQ(num_used, 80);
}

TEST(LookupPrefetcher, KeepsABatchUntilItsLastLookupIsUsed) {
  Staging staging(1, 1);
  staging.stage->Stage(0, {staging.Lookup(1), staging.Lookup(2), staging.Lookup(2)});
  staging.WaitFor(1);
  EXPECT_EQ(staging.Use(2), 2);
  EXPECT_EQ(staging.Use(1), 1);
  EXPECT_EQ(staging.stage->num_ahead(), 1);
  EXPECT_EQ(staging.Use(2), 2);
  EXPECT_EQ(staging.stage->num_ahead(), 0);
}

TEST(LookupPrefetcher, SaysInWhichBatchAnErrorWas) {
  Staging staging(1, 2);
  staging.stage->Stage(12, {staging.Lookup(1, [](std::unique_ptr<StagedRows>*) {
                         return Status(StatusCode::kDataLoss, "record 3 is damaged");
                       })});
  staging.WaitFor(1);
  Status status;
  EXPECT_EQ(staging.Use(1, &status), kMissed);
  EXPECT_TRUE(FailsWith(StatusCode::kDataLoss, "batch 12 of prefetch_lookups: record 3 is damaged",
                        status));
  staging.Stage(13);
  EXPECT_EQ(staging.UseWhenReady(13, 1), 13);
}

TEST(LookupPrefetcher, DropsEverythingWhenItStops) {
  Staging staging(1, 2);
  staging.StageAll(0, 5);
  staging.stage->Stop();
  EXPECT_EQ(staging.Use(3), kMissed);
  staging.Stage(6);
  EXPECT_EQ(staging.Use(6), kMissed);
  EXPECT_EQ(staging.area->counts().dropped, 6);
  EXPECT_FALSE(staging.area->MayHaveAny());
}

TEST(LookupPrefetcher, LetsGoOfWhatItsWorkKeptAlive) {
  Staging staging(1, 1);
  const auto kept = std::make_shared<int>(0);
  for (int64_t number = 0; number < 3; ++number) {
    staging.stage->Stage(
        number,
        {staging.Lookup(number, [kept](std::unique_ptr<StagedRows>*) { return Status::Ok(); })});
  }
  staging.stage->Stop();
  EXPECT_EQ(kept.use_count(), 1);
}

TEST(LookupPrefetcher, WorksFurtherAheadWhileStepsWait) {
  Staging staging(0, 0);
  EXPECT_EQ(staging.stage->capacity(), 1);
  EXPECT_EQ(staging.stage->num_threads(), 1);
  const auto is_enough = [&staging] {
    return staging.stage->capacity() >= 8 && staging.stage->num_threads() >= 4;
  };
  for (int64_t number = 0; number < 5000 && !is_enough(); ++number) {
    // Longer than it takes to come to ask for it, on a busy machine most of the time.
    const auto work = [number](std::unique_ptr<StagedRows>* rows) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      *rows = std::make_unique<Number>(number);
      return Status::Ok();
    };
    staging.stage->Stage(number, {staging.Lookup(number, work)});
    (void)staging.Use(number);
  }
  for (int64_t number = 10000; number < 10200; ++number) {
    staging.Stage(number);
    (void)staging.Use(number);
  }
  EXPECT_EQ(staging.stage->capacity(), 8) << "no more, however many steps wait";
  EXPECT_EQ(staging.stage->num_threads(), 4);
  Staging patient(0, 0);
  for (int64_t number = 0; number < 50; ++number) {
    patient.Stage(number);
    EXPECT_EQ(patient.UseWhenReady(number, 1), number);
  }
  EXPECT_EQ(patient.stage->capacity(), 1);
}

TEST(LookupPrefetcher, RefusesWhatItCannotDo) {
  std::shared_ptr<LookupPrefetcher> stage;
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "Received: num_threads=-1",
                        LookupPrefetcher::Open({-1, 1}, &stage)));
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "Received: capacity=65",
                        LookupPrefetcher::Open({1, 65}, &stage)));
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "`num_threads` must be at most `capacity`",
                        LookupPrefetcher::Open({3, 2}, &stage)));
}

TEST(LookupPrefetcherStress, NeverGivesAStepAnotherBatchsRows) {
  Staging staging(3, 4);
  constexpr int64_t kBatches = 3000;
  std::atomic<int64_t> num_sent{0};
  std::thread data([&] {
    for (int64_t number = 0; number < kBatches; ++number) {
      staging.stage->Stage(number, {staging.Lookup(2 * number), staging.Lookup(2 * number + 1)});
      ++num_sent;
    }
  });
  std::atomic<int64_t> num_used{0};
  std::vector<std::thread> steps;
  for (int64_t s = 0; s < 2; ++s) {
    steps.emplace_back([&, s] {
      for (int64_t number = 0; number < kBatches; ++number) {
        while (num_sent <= number) std::this_thread::yield();
        if (number % 17 == 3) continue;  // a batch that one of two layers leaves out
        const int64_t used = staging.Use(2 * number + s);
        if (used == kMissed) continue;
        EXPECT_EQ(used, 2 * number + s);
        ++num_used;
      }
    });
  }
  data.join();
  for (std::thread& step : steps) step.join();
  staging.stage->Stop();
  const StagingCounts counts = staging.area->counts();
  EXPECT_EQ(counts.staged, 2 * kBatches);
  EXPECT_EQ(num_used + counts.dropped, 2 * kBatches);
}

}  // namespace keras_sparse::lookup_prefetcher_test
