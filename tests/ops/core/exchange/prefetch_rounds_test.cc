#include "ops/core/exchange/prefetch_rounds.h"

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "tests/ops/core/support/thread_executor.h"

namespace keras_sparse::prefetch_rounds_test {

constexpr int64_t kNothing = -1;
constexpr size_t kMaxRounds = 100;

// What every rank sent in a round: the numbers of their lookups.
class Numbers : public PrefetchRounds::Content {
 public:
  explicit Numbers(int64_t own) : own_number(own) {}
  const int64_t own_number;
  std::vector<int64_t> all;
};

// Ranks in one process: a barrier stands in for their exchanges.
class Ranks {
 public:
  explicit Ranks(size_t num_ranks) : sent_(num_ranks, kNothing), leaves_(num_ranks) {
    for (size_t r = 0; r < num_ranks; ++r) {
      clocks.push_back(std::make_shared<StepClock>());
      rounds.push_back(std::make_unique<PrefetchRounds>(num_ranks, r, clocks.back()));
      rounds.back()->KeepAtLeast(kMaxRounds);
    }
    for (size_t r = 0; r < num_ranks; ++r) {
      couriers_.emplace_back([this, r] { Carry(r); });
    }
  }
  ~Ranks() { Leave(); }

  void Leave() {
    for (const auto& each : rounds) each->Close();
    for (std::thread& courier : couriers_) courier.join();
    couriers_.clear();
  }

  // As a stage's worker does it.
  int64_t HandIn(size_t rank, int64_t number) {
    int64_t round = 0;
    EXPECT_TRUE(IsOk(rounds[rank]->Exchange(std::make_shared<Numbers>(number), &round)));
    return round;
  }

  // The lookup of each rank that this one expects, when its own is in `round`.
  std::vector<int64_t> Expected(size_t rank, int64_t round) const {
    const PrefetchRounds::Expectation expected = rounds[rank]->Expect(round);
    std::vector<int64_t> numbers;
    for (size_t r = 0; r < expected.contents.size(); ++r) {
      const auto* content = static_cast<const Numbers*>(expected.contents[r].get());
      numbers.push_back(content == nullptr ? kNothing : content->all[r]);
    }
    return numbers;
  }

  std::vector<std::shared_ptr<StepClock>> clocks;
  std::vector<std::unique_ptr<PrefetchRounds>> rounds;

 private:
  void Carry(size_t rank) {
    bool is_last = false;
    while (!is_last) {
      const PrefetchRounds::Turn turn = rounds[rank]->Next();
      auto content = std::static_pointer_cast<Numbers>(turn.lookup);
      if (content == nullptr) content = std::make_shared<Numbers>(kNothing);
      content->all = Exchange(rank, content->own_number, turn.is_leaving, &is_last);
      rounds[rank]->End(content);
    }
  }

  std::vector<int64_t> Exchange(size_t rank, int64_t number, bool leaves, bool* is_last) {
    std::unique_lock<std::mutex> lock(mutex_);
    const int64_t generation = generation_;
    sent_[rank] = number;
    leaves_[rank] = leaves;
    if (++num_here_ == sent_.size()) {
      received_ = sent_;
      all_leave_ = std::all_of(leaves_.begin(), leaves_.end(), [](bool each) { return each; });
      num_here_ = 0;
      ++generation_;
      all_here_.notify_all();
    }
    all_here_.wait(lock, [&] { return generation_ != generation; });
    *is_last = all_leave_;
    return received_;
  }

  std::mutex mutex_;
  std::condition_variable all_here_;
  size_t num_here_ = 0;
  int64_t generation_ = 0;
  std::vector<int64_t> sent_;
  std::vector<bool> leaves_;
  std::vector<int64_t> received_;
  bool all_leave_ = false;
  std::vector<std::thread> couriers_;
};

TEST(PrefetchRoundsTest, RanksInStepFindEachOthersLookups) {
  Ranks ranks(3);
  InThreads(size_t{3}, [&](size_t r) {
    for (int64_t batch = 0; batch < 50; ++batch) {
      const int64_t number = 10 * batch + static_cast<int64_t>(r);
      EXPECT_EQ(ranks.HandIn(r, number), batch);
    }
  });
  for (size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(ranks.Expected(r, 7), (std::vector<int64_t>{70, 71, 72}));
  }
}

TEST(PrefetchRoundsTest, WhatStepsHaveSeenIsDropped) {
  Ranks ranks(2);
  InThreads(size_t{2}, [&](size_t r) {
    for (int64_t batch = 0; batch < 4; ++batch) ranks.HandIn(r, batch);
  });
  ranks.rounds[0]->MarkUsed({1, 1});
  EXPECT_EQ(ranks.Expected(0, 1), (std::vector<int64_t>{kNothing, kNothing}));
  EXPECT_EQ(ranks.Expected(0, 2), (std::vector<int64_t>{2, 2}));
}

TEST(PrefetchRoundsTest, ADifferenceBetweenRanksIsExpectedFromThenOn) {
  Ranks ranks(2);
  // Rank 1 has handed in one that no step takes.
  InThreads(size_t{2}, [&](size_t r) {
    for (int64_t batch = 0; batch < 5; ++batch) ranks.HandIn(r, r == 0 ? batch : batch - 1);
  });
  const uint32_t before = ranks.rounds[0]->Expect(1).checksum();
  EXPECT_EQ(before, ranks.rounds[1]->Expect(2).checksum());
  EXPECT_EQ(ranks.Expected(0, 1), (std::vector<int64_t>{1, 0}));
  for (size_t r = 0; r < 2; ++r) ranks.rounds[r]->MarkUsed({1, 2});
  EXPECT_EQ(ranks.Expected(0, 2), (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(ranks.Expected(1, 3), (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(ranks.rounds[0]->Expect(2).checksum(), ranks.rounds[1]->Expect(3).checksum());
  EXPECT_NE(ranks.rounds[0]->Expect(2).checksum(), before);
}

TEST(PrefetchRoundsTest, ARankThatIsBehindLeavesRoundsOutOnce) {
  Ranks ranks(2);
  // Rank 1 comes with its lookups a round later.
  InThreads(size_t{2}, [&](size_t r) {
    for (int64_t batch = 0; batch < 3; ++batch) ranks.HandIn(r, r == 0 ? batch : batch - 1);
  });
  // Several steps see it before the next round.
  for (int64_t batch = 0; batch < 2; ++batch) {
    for (size_t r = 0; r < 2; ++r) ranks.rounds[r]->MarkUsed({batch, batch + 1});
  }
  std::vector<int64_t> rounds(2);
  InThreads(size_t{2}, [&](size_t r) {
    if (r == 1) {
      EXPECT_EQ(ranks.HandIn(r, 2), 3);
    }
    rounds[r] = ranks.HandIn(r, 3);
  });
  EXPECT_EQ(rounds, (std::vector<int64_t>{4, 4}));
}

TEST(PrefetchRoundsTest, ARankWhoseStepWaitsTakesPartWithoutALookup) {
  Ranks ranks(2);
  const StepClock::Waiting waiting(ranks.clocks[1]);
  const int64_t round = ranks.HandIn(0, 5);
  EXPECT_EQ(ranks.Expected(0, round), (std::vector<int64_t>{5, kNothing}));
}

TEST(PrefetchRoundsTest, ARankThatHasEndedTakesPartUntilAllHave) {
  Ranks ranks(2);
  ranks.rounds[1]->Close();
  for (int64_t batch = 0; batch < 3; ++batch) {
    const int64_t round = ranks.HandIn(0, batch);
    EXPECT_EQ(ranks.Expected(0, round), (std::vector<int64_t>{batch, kNothing}));
  }
  int64_t round = 0;
  EXPECT_TRUE(IsOk(ranks.rounds[1]->Exchange(std::make_shared<Numbers>(1), &round)));
  EXPECT_EQ(round, -1);
  ranks.Leave();
}

TEST(PrefetchRoundsTest, AFailureIsThatOfLookupsAndOfTheCourier) {
  PrefetchRounds rounds(2, 0, std::make_shared<StepClock>());
  std::thread courier([&] {
    EXPECT_FALSE(rounds.Next().is_over);
    rounds.Fail(FailedPrecondition("no network"));
    EXPECT_TRUE(rounds.Next().is_over);
  });
  int64_t round = 0;
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "no network",
                        rounds.Exchange(std::make_shared<Numbers>(1), &round)));
  courier.join();
}

TEST(PrefetchRoundsTest, RoundsThatNobodyAsksForAreNotKeptForEver) {
  Ranks ranks(2);
  InThreads(size_t{2}, [&](size_t r) {
    for (int64_t batch = 0; batch < 150; ++batch) ranks.HandIn(r, batch);
  });
  EXPECT_EQ(ranks.Expected(0, 0), (std::vector<int64_t>{kNothing, kNothing}));
  EXPECT_EQ(ranks.Expected(0, 149), (std::vector<int64_t>{149, 149}));
}

// Ranks hand in at random times, leave some batches out, and find out by their rounds whether they
// have each other's lookups: those they then use must be those of the step.
TEST(PrefetchRoundsTest, StressNeverPairsLookupsOfTwoSteps) {
  constexpr size_t kRanks = 3;
  constexpr int64_t kSteps = 400;
  Ranks ranks(kRanks);
  std::vector<std::vector<int64_t>> round_of(kRanks, std::vector<int64_t>(kSteps, kNothing));
  std::vector<std::thread> workers;
  std::vector<std::atomic<int64_t>> num_staged(kRanks);
  for (size_t r = 0; r < kRanks; ++r) {
    workers.emplace_back([&, r] {
      std::mt19937 random(static_cast<uint32_t>(r));
      for (int64_t step = 0; step < kSteps; ++step) {
        if (random() % 20 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (random() % 50 > 0) round_of[r][static_cast<size_t>(step)] = ranks.HandIn(r, step);
        num_staged[r] = step + 1;
      }
    });
  }
  int64_t num_used = 0;
  for (int64_t step = 0; step < kSteps; ++step) {
    // A rank whose lookup is there waits for those that come later.
    std::vector<std::unique_ptr<StepClock::Waiting>> waiting(kRanks);
    const auto is_missing = [&](size_t r) { return num_staged[r] <= step; };
    while (is_missing(0) || is_missing(1) || is_missing(2)) {
      for (size_t r = 0; r < kRanks; ++r) {
        if (is_missing(r) || waiting[r] != nullptr) continue;
        waiting[r] = std::make_unique<StepClock::Waiting>(ranks.clocks[r]);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    std::vector<int64_t> rounds;
    for (const auto& each : round_of) rounds.push_back(each[static_cast<size_t>(step)]);
    if (std::count(rounds.begin(), rounds.end(), kNothing) > 0) continue;
    bool are_expected = true;
    std::vector<PrefetchRounds::Expectation> expected;
    for (size_t r = 0; r < kRanks; ++r) {
      expected.push_back(ranks.rounds[r]->Expect(rounds[r]));
      are_expected &= expected[r].rounds == rounds;
      EXPECT_EQ(expected[r].checksum(), expected[0].checksum());
    }
    for (size_t r = 0; are_expected && r < kRanks; ++r) {
      // Nothing, if this rank's courier is not yet done with a round that another one is done with.
      for (const int64_t number : ranks.Expected(r, rounds[r])) {
        EXPECT_TRUE(number == step || number == kNothing) << number << " in step " << step;
        num_used += number == step ? 1 : 0;
      }
    }
    for (size_t r = 0; r < kRanks; ++r) ranks.rounds[r]->MarkUsed(rounds);
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_GT(num_used, 0);
}

}  // namespace keras_sparse::prefetch_rounds_test
