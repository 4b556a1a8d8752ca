// PrefetchRounds: the exchanges that ranks make ahead of their steps, in rounds.
#ifndef KERAS_SPARSE_OPS_CORE_EXCHANGE_PREFETCH_ROUNDS_H_
#define KERAS_SPARSE_OPS_CORE_EXCHANGE_PREFETCH_ROUNDS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "ops/core/base/mutex.h"
#include "ops/core/base/status.h"

namespace keras_sparse {

// Measures whether steps wait longer in the first exchange of their lookups than the exchange
// itself takes.
//
// Thread safety: every method may be called from any thread.
class StepClock {
 public:
  // A step waits during the lifetime of this object.
  class Waiting {
   public:
    explicit Waiting(std::shared_ptr<StepClock> clock);
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    std::shared_ptr<StepClock> clock_;
  };

  // Returns whether steps have continuously waited this much longer than usual.
  bool HasWaitedBeyond(std::chrono::milliseconds patience) const;

 private:
  using Clock = std::chrono::steady_clock;

  mutable Mutex mutex_;
  int64_t num_waiting_ GUARDED_BY(mutex_) = 0;
  Clock::time_point since_ GUARDED_BY(mutex_);
  Clock::duration usual_ GUARDED_BY(mutex_){};  // how long steps usually wait
};

// One rank's side of the rounds of a stage. In a round every rank sends every other rank its data
// for a future lookup. The stage's worker hands in lookups, a courier thread takes part in the
// rounds, and steps request the received data.
//
// Every rank takes part in every round, with or without a lookup, so that round numbers agree
// everywhere. A rank with a lookup waits in its round until the others join; these soon have a
// lookup too, because all train in step. A rank without a lookup whose step waits for others, one
// of which may wait in a round for this rank, joins without a lookup: no rank waits forever. A rank
// whose stage has ended takes part until all stages have ended.
//
// Lookups of the same step may therefore be in different rounds on different ranks. Steps tell each
// other their rounds; the differences are expected to be the same in the next step. A rank that is
// behind the others skips as many rounds, so that the differences become 0 again.
//
// Thread safety: every method may be called from any thread; each Next is followed by End.
class PrefetchRounds {
 public:
  // The data that ranks send each other in a round; defined by the caller.
  class Content {
   public:
    virtual ~Content() = default;
  };
  // This rank's part of a round: the lookup that was handed in, or null.
  struct Turn {
    std::shared_ptr<Content> lookup;
    bool is_leaving = false;
    bool is_over = false;  // there are no more rounds
  };

  // How much longer than usual a step may wait before its rank joins a round without a lookup.
  static constexpr std::chrono::milliseconds kPatience{100};

  //   clock  of the steps that look up the same tables
  PrefetchRounds(size_t num_ranks, size_t rank, std::shared_ptr<const StepClock> clock);

  // Hands in a lookup and returns once its round is over. Calls must not overlap.
  //   round  receives its number, -1 if the stage ended before
  Status Exchange(std::shared_ptr<Content> lookup, int64_t* round);

  // Ends the stage: a lookup that was handed in gets no round, and received data is dropped.
  void Close();

  // Waits until this rank should take part in the next round.
  Turn Next();
  // Ends the round.
  //   content  the data for steps
  void End(std::shared_ptr<Content> content);
  // Ends all rounds: all lookups return this error.
  void Fail(const Status& status);
  // Sets how many rounds are kept that no step has used: at least the number that stages are ahead.
  void KeepAtLeast(size_t num_rounds);

  // The rounds of all ranks' lookups in a step.
  struct Expectation {
    std::vector<int64_t> rounds;                     // (num_ranks)
    std::vector<std::shared_ptr<Content>> contents;  // of these rounds; null if dropped

    // Checksum of what ranks with the same expectation share.
    uint32_t checksum() const;
  };
  // Returns the expectation if this rank's lookup is in `round`.
  Expectation Expect(int64_t round) const;

  // Marks these rounds as used by a step, and drops the data of these and earlier rounds.
  void MarkUsed(const std::vector<int64_t>& rounds);

 private:
  const size_t rank_;
  const std::shared_ptr<const StepClock> clock_;

  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::shared_ptr<Content> lookup_ GUARDED_BY(mutex_);  // handed in, and its round is not over
  int64_t lookup_round_ GUARDED_BY(mutex_) = -1;        // of the last finished round
  int64_t next_round_ GUARDED_BY(mutex_) = 0;
  size_t max_rounds_ GUARDED_BY(mutex_) = 0;
  std::map<int64_t, std::shared_ptr<Content>> contents_ GUARDED_BY(mutex_);  // by round
  // (num_ranks) How many rounds each rank's lookup is ahead of this rank's.
  std::vector<int64_t> ahead_by_ GUARDED_BY(mutex_);
  // Rounds that this rank is behind the first one, and is catching up on.
  int64_t num_behind_ GUARDED_BY(mutex_) = 0;
  // Rounds to join without a lookup, in order to catch up.
  int64_t num_left_out_ GUARDED_BY(mutex_) = 0;
  Status failure_ GUARDED_BY(mutex_);
  bool is_closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_EXCHANGE_PREFETCH_ROUNDS_H_
