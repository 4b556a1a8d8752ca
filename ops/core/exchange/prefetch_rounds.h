// The exchanges that ranks make ahead of their steps, in rounds.
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

// Says whether steps wait longer in the first exchange of their lookups than that takes by itself.
//
// Thread safety: every method may be called from any thread.
class StepClock {
 public:
  // A step waits while it lives.
  class Waiting {
   public:
    explicit Waiting(std::shared_ptr<StepClock> clock);
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    std::shared_ptr<StepClock> clock_;
  };

  // Whether steps have waited so much longer without a break.
  bool HasWaitedBeyond(std::chrono::milliseconds patience) const;

 private:
  using Clock = std::chrono::steady_clock;

  mutable Mutex mutex_;
  int64_t num_waiting_ GUARDED_BY(mutex_) = 0;
  Clock::time_point since_ GUARDED_BY(mutex_);
  Clock::duration usual_ GUARDED_BY(mutex_){};  // how long steps wait
};

// One rank's side of the rounds of a stage. In a round every rank sends every other one what it
// needs for a lookup that is to come. The stage's worker hands lookups in, a courier, which is a
// thread of its own, takes part in the rounds, and steps ask for what came.
//
// Every rank takes part in every round, with or without a lookup, so that rounds have the same
// numbers everywhere. They come about as follows. A rank with a lookup waits in its round until the
// others come; these have one soon, as they train in step. A rank that has none and whose step
// waits for others, one of which may wait in a round for this one, takes part without: nothing
// waits for ever. A rank whose stage has ended takes part until all have.
//
// A lookup of the same step may so be in another round on another rank. Steps tell each other their
// rounds, and by how much they differ is expected to be the same in the next step. A rank that is
// behind the others leaves out as many rounds, and then they are the same again.
//
// Thread safety: every method may be called from any thread; End belongs to Next.
class PrefetchRounds {
 public:
  // What ranks send each other in a round, as who uses this has it.
  class Content {
   public:
    virtual ~Content() = default;
  };
  // What this rank sends: the lookup that was handed in, or null without one.
  struct Turn {
    std::shared_ptr<Content> lookup;
    bool is_leaving = false;
    bool is_over = false;  // there are no more rounds
  };

  // What a step may wait beyond the usual before its rank takes part without a lookup.
  static constexpr std::chrono::milliseconds kPatience{100};

  //   clock  of the steps that look the same tables up
  PrefetchRounds(size_t num_ranks, size_t rank, std::shared_ptr<const StepClock> clock);

  // Hands a lookup in and returns once its round is over. One at a time.
  //   round  gets its number, -1 if the stage ended before
  Status Exchange(std::shared_ptr<Content> lookup, int64_t* round);

  // Ends the stage: what was handed in gets no round, and what came is dropped.
  void Close();

  // Waits until this rank is to take part in the next round.
  Turn Next();
  // Ends the round.
  //   content  what there is for steps
  void End(std::shared_ptr<Content> content);
  // No more rounds can be: the error is that of all lookups.
  void Fail(const Status& status);
  // How many rounds are kept that no step has seen: at least as many as stages have ahead.
  void KeepAtLeast(size_t num_rounds);

  // Where the lookups of all ranks are in a step.
  struct Expectation {
    std::vector<int64_t> rounds;                     // (num_ranks)
    std::vector<std::shared_ptr<Content>> contents;  // of these; null where nothing is any more

    // Of what ranks that expect the same have in common.
    uint32_t checksum() const;
  };
  // What is expected when this rank's lookup is in `round`.
  Expectation Expect(int64_t round) const;

  // Marks these rounds as used by a step, and drops what came in them and in earlier ones.
  void MarkUsed(const std::vector<int64_t>& rounds);

 private:
  const size_t rank_;
  const std::shared_ptr<const StepClock> clock_;

  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::shared_ptr<Content> lookup_ GUARDED_BY(mutex_);  // handed in, and its round is not over
  int64_t lookup_round_ GUARDED_BY(mutex_) = -1;        // of the last one that is over
  int64_t next_round_ GUARDED_BY(mutex_) = 0;
  size_t max_rounds_ GUARDED_BY(mutex_) = 0;
  std::map<int64_t, std::shared_ptr<Content>> contents_ GUARDED_BY(mutex_);  // by round
  // (num_ranks) Rounds that a rank's lookup is beyond this one's.
  std::vector<int64_t> ahead_by_ GUARDED_BY(mutex_);
  // Rounds that this one is behind the first, and makes good.
  int64_t num_behind_ GUARDED_BY(mutex_) = 0;
  // Rounds to take part in without a lookup, for that.
  int64_t num_left_out_ GUARDED_BY(mutex_) = 0;
  Status failure_ GUARDED_BY(mutex_);
  bool is_closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_EXCHANGE_PREFETCH_ROUNDS_H_
