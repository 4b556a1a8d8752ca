#include "ops/core/exchange/prefetch_rounds.h"

#include <algorithm>
#include <utility>

#include "ops/core/base/crc32c.h"

namespace keras_sparse {
namespace {

// Steps from which a StepClock learns the usual wait, the multiple of the usual wait that is still
// normal, and the limit of patience: stalls are remembered too.
constexpr int kNumRemembered = 10;
constexpr int kUsualTimes = 3;
constexpr std::chrono::seconds kMostPatience{2};

}  // namespace

StepClock::Waiting::Waiting(std::shared_ptr<StepClock> clock) : clock_(std::move(clock)) {
  const MutexLock lock(clock_->mutex_);
  if (clock_->num_waiting_++ == 0) clock_->since_ = Clock::now();
}

StepClock::Waiting::~Waiting() {
  const MutexLock lock(clock_->mutex_);
  if (--clock_->num_waiting_ > 0) return;
  const Clock::duration waited = Clock::now() - clock_->since_;
  clock_->usual_ += (waited - clock_->usual_) / kNumRemembered;
}

bool StepClock::HasWaitedBeyond(std::chrono::milliseconds patience) const {
  const MutexLock lock(mutex_);
  const Clock::duration most =
      std::min<Clock::duration>(patience + kUsualTimes * usual_, kMostPatience);
  return num_waiting_ > 0 && Clock::now() - since_ >= most;
}

PrefetchRounds::PrefetchRounds(size_t num_ranks, size_t rank,
                               std::shared_ptr<const StepClock> clock)
    : rank_(rank), clock_(std::move(clock)), ahead_by_(num_ranks, 0) {}

Status PrefetchRounds::Exchange(std::shared_ptr<Content> lookup, int64_t* round) {
  const MutexLock lock(mutex_);
  lookup_ = std::move(lookup);
  changed_.NotifyAll();
  while (lookup_ != nullptr && !is_closed_ && failure_.ok()) changed_.Wait(mutex_);
  *round = lookup_ == nullptr ? lookup_round_ : -1;
  const bool is_done = lookup_ == nullptr;
  lookup_ = nullptr;
  return is_done || is_closed_ ? Status::Ok() : failure_;
}

void PrefetchRounds::Close() {
  std::map<int64_t, std::shared_ptr<Content>> contents;  // freed after the lock
  const MutexLock lock(mutex_);
  is_closed_ = true;
  contents_.swap(contents);
  changed_.NotifyAll();
}

PrefetchRounds::Turn PrefetchRounds::Next() {
  const MutexLock lock(mutex_);
  while (true) {
    Turn turn;
    turn.is_over = !failure_.ok();
    turn.is_leaving = is_closed_;
    if (turn.is_over || turn.is_leaving) return turn;
    if (num_left_out_ > 0) {
      --num_left_out_;
      return turn;
    }
    turn.lookup = lookup_;
    if (lookup_ != nullptr || clock_->HasWaitedBeyond(kPatience)) return turn;
    changed_.WaitFor(mutex_, kPatience);
  }
}

void PrefetchRounds::End(std::shared_ptr<Content> content) {
  std::shared_ptr<Content> dropped;
  const MutexLock lock(mutex_);
  const int64_t round = next_round_++;
  if (lookup_ != nullptr && lookup_ == content) {
    lookup_round_ = round;
    lookup_ = nullptr;
    changed_.NotifyAll();
  }
  if (is_closed_) return;
  contents_.emplace(round, std::move(content));
  if (contents_.size() > max_rounds_) {
    dropped = std::move(contents_.begin()->second);
    contents_.erase(contents_.begin());
  }
}

void PrefetchRounds::Fail(const Status& status) {
  const MutexLock lock(mutex_);
  failure_ = status;
  changed_.NotifyAll();
}

uint32_t PrefetchRounds::Expectation::checksum() const {
  std::vector<int64_t> beyond_first;
  beyond_first.reserve(rounds.size());
  for (const int64_t round : rounds) beyond_first.push_back(round - rounds.front());
  return Crc32c(beyond_first.data(), beyond_first.size() * sizeof(int64_t));
}

void PrefetchRounds::KeepAtLeast(size_t num_rounds) {
  const MutexLock lock(mutex_);
  max_rounds_ = std::max(max_rounds_, num_rounds);
}

PrefetchRounds::Expectation PrefetchRounds::Expect(int64_t round) const {
  const MutexLock lock(mutex_);
  Expectation expected;
  for (const int64_t ahead_by : ahead_by_) {
    const auto found = contents_.find(round + ahead_by);
    expected.rounds.push_back(round + ahead_by);
    expected.contents.push_back(found == contents_.end() ? nullptr : found->second);
  }
  return expected;
}

void PrefetchRounds::MarkUsed(const std::vector<int64_t>& rounds) {
  std::vector<std::shared_ptr<Content>> dropped;
  const MutexLock lock(mutex_);
  for (size_t r = 0; r < rounds.size(); ++r) ahead_by_[r] = rounds[r] - rounds[rank_];
  // Steps see the effect only later, because earlier lookups have had their rounds already.
  const int64_t num_behind = *std::max_element(ahead_by_.begin(), ahead_by_.end());
  num_left_out_ += std::max<int64_t>(0, num_behind - num_behind_);
  num_behind_ = num_behind;
  changed_.NotifyAll();
  const int64_t first = *std::min_element(rounds.begin(), rounds.end());
  while (!contents_.empty() && contents_.begin()->first <= first) {
    dropped.push_back(std::move(contents_.begin()->second));
    contents_.erase(contents_.begin());
  }
}

}  // namespace keras_sparse
