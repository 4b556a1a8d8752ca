#include "ops/core/staging/lookup_prefetcher.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <string>
#include <system_error>

namespace keras_sparse {
namespace {

// Limits of a stage that chooses its own. Beyond them the disk or the network is always busy, and
// further batches would only queue for it.
constexpr int64_t kMaxChosenThreads = 4;
constexpr int64_t kMaxChosenCapacity = 8;
// Steps observed before adjusting; one of them may wait by chance.
constexpr int64_t kObservedSteps = 8;
// Limit for batches that no step uses.
constexpr size_t kMaxStagedBatches = 3 * LookupPrefetcher::kMaxCapacity;

using Clock = std::chrono::steady_clock;

int64_t NanosecondsSince(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

Status CheckOption(const char* name, int64_t value) {
  if (value >= 0 && value <= LookupPrefetcher::kMaxCapacity) return Status::Ok();
  return InvalidArgument("`" + std::string(name) + "` must be in [1, " +
                         std::to_string(LookupPrefetcher::kMaxCapacity) +
                         "], or 0 to be chosen. Received: " + name + "=" + std::to_string(value));
}

}  // namespace

// One batch in a stage.
struct StagedBatch {
  enum class State { kWaiting, kInWork, kReady };

  int64_t number;
  std::vector<std::shared_ptr<StagedLookup>> lookups;
  State state = State::kWaiting;
  size_t num_closed = 0;   // lookups that a step has used
  int64_t num_passed = 0;  // times that a step has used a later batch

  bool is_begun() const { return num_closed > 0; }
};

Status StagedLookup::Use(std::unique_ptr<StagedRows>* rows, int64_t* waited_ns) {
  *waited_ns = 0;
  const std::shared_ptr<LookupPrefetcher> stage = stage_.lock();
  return stage == nullptr ? Status::Ok() : stage->Use(this, rows, waited_ns);
}

void StagedLookup::DoWork(int64_t batch) {
  const Clock::time_point start = Clock::now();
  Status status;
  try {
    status = work_(&rows_);
  } catch (const std::bad_alloc&) {
    status = ResourceExhausted("no memory is left to make its lookups ready");
  }
  if (!status.ok()) {
    status_ = Status(status.code(), "batch " + std::to_string(batch) +
                                        " of prefetch_lookups: " + status.message());
  }
  work_ = nullptr;  // also frees what it kept alive
  work_ns_ = NanosecondsSince(start);
}

Status LookupPrefetcher::Open(const Options& options, std::shared_ptr<LookupPrefetcher>* stage) {
  KERAS_SPARSE_RETURN_IF_ERROR(CheckOption("num_threads", options.num_threads));
  KERAS_SPARSE_RETURN_IF_ERROR(CheckOption("capacity", options.capacity));
  if (options.capacity > 0 && options.num_threads > options.capacity) {
    return InvalidArgument(
        "`num_threads` must be at most `capacity`, as each thread works on one of the staged "
        "batches. Received: num_threads=" +
        std::to_string(options.num_threads) + ", capacity=" + std::to_string(options.capacity));
  }
  stage->reset(new LookupPrefetcher(options));
  const MutexLock lock((*stage)->mutex_);
  for (int64_t i = 0; i < (*stage)->num_threads_; ++i) {
    KERAS_SPARSE_RETURN_IF_ERROR((*stage)->StartThread());
  }
  return Status::Ok();
}

Status LookupPrefetcher::StartThread() {
  try {
    threads_.emplace_back([this] { DoWork(); });
  } catch (const std::system_error& error) {
    return ResourceExhausted(std::string("a thread of prefetch_lookups could not be started: ") +
                             error.what());
  }
  return Status::Ok();
}

LookupPrefetcher::LookupPrefetcher(const Options& options)
    : options_(options),
      num_threads_(std::max<int64_t>(1, options.num_threads)),
      capacity_(std::max(num_threads_, options.capacity)) {}

LookupPrefetcher::~LookupPrefetcher() { Stop(); }

void LookupPrefetcher::Stop() {
  std::vector<std::thread> threads;
  {
    const MutexLock lock(mutex_);
    is_stopping_ = true;
    threads.swap(threads_);
    work_.NotifyAll();
  }
  for (std::thread& thread : threads) thread.join();
  Leftovers leftovers;
  const MutexLock lock(mutex_);
  while (!batches_.empty()) Drop(batches_.back().get(), &leftovers);
  ready_.NotifyAll();
}

void LookupPrefetcher::Stage(int64_t number, std::vector<std::shared_ptr<StagedLookup>> lookups) {
  if (lookups.empty()) return;
  Leftovers leftovers;
  const MutexLock lock(mutex_);
  batches_.push_back(std::make_unique<StagedBatch>());
  StagedBatch* batch = batches_.back().get();
  batch->number = number;
  for (const auto& lookup : lookups) {
    lookup->stage_ = weak_from_this();
    lookup->batch_ = batch;
    lookup->area_->Add(lookup);
  }
  batch->lookups = std::move(lookups);
  if (is_stopping_) Drop(batch, &leftovers);
  if (batches_.size() > kMaxStagedBatches) {
    const auto idle = std::find_if(batches_.begin(), batches_.end(), [](const auto& each) {
      return each->state != StagedBatch::State::kInWork;
    });
    Drop(idle->get(), &leftovers);
  }
  work_.NotifyOne();
}

StagedBatch* LookupPrefetcher::NextBatch() const {
  if (num_working_ >= num_threads_ || num_working_ + num_ready_ >= capacity_) return nullptr;
  const auto next = std::find_if(batches_.begin(), batches_.end(), [](const auto& each) {
    return each->state == StagedBatch::State::kWaiting;
  });
  return next == batches_.end() ? nullptr : next->get();
}

void LookupPrefetcher::DoWork() {
  (void)pthread_setname_np(pthread_self(), "lookup_stage");  // for profilers
  const MutexLock lock(mutex_);
  while (!is_stopping_) {
    StagedBatch* batch = NextBatch();
    if (batch == nullptr) {
      work_.Wait(mutex_);
    } else {
      DoBatch(batch);
    }
  }
}

void LookupPrefetcher::DoBatch(StagedBatch* batch) {
  batch->state = StagedBatch::State::kInWork;
  ++num_working_;
  {
    const MutexUnlock unlock(mutex_);
    for (const auto& lookup : batch->lookups) lookup->DoWork(batch->number);
  }
  batch->state = StagedBatch::State::kReady;
  --num_working_;
  ++num_ready_;
  ready_.NotifyAll();
}

Status LookupPrefetcher::Use(StagedLookup* lookup, std::unique_ptr<StagedRows>* rows,
                             int64_t* waited_ns) {
  Leftovers leftovers;
  const MutexLock lock(mutex_);
  if (lookup->batch_ == nullptr) return Status::Ok();
  StagedBatch* batch = lookup->batch_;
  if (batch->state == StagedBatch::State::kWaiting) {
    // The step has overtaken the stage.
    CountStep(true);
    PassOver(batch, &leftovers);
    Drop(batch, &leftovers);
    return Status::Ok();
  }
  const bool has_to_wait = batch->state == StagedBatch::State::kInWork;
  if (has_to_wait) {
    const Clock::time_point start = Clock::now();
    while (lookup->batch_ != nullptr && batch->state != StagedBatch::State::kReady) {
      ready_.Wait(mutex_);
    }
    *waited_ns = NanosecondsSince(start);
    if (lookup->batch_ == nullptr) return Status::Ok();
  }
  if (!batch->is_begun()) {
    PassOver(batch, &leftovers);
    CountStep(has_to_wait);
  }
  *rows = std::move(lookup->rows_);
  Close(lookup);
  return lookup->status_;
}

void LookupPrefetcher::PassOver(const StagedBatch* asked, Leftovers* leftovers) {
  std::vector<StagedBatch*> left_out;
  for (const auto& each : batches_) {
    if (each.get() == asked) break;
    if (each->state == StagedBatch::State::kInWork) continue;
    // Batches before one that the stage has not started block it. Other batches may still be used,
    // in another order, but not a batch whose step has begun, because steps work on one batch at a
    // time.
    const bool is_in_the_way = asked->state == StagedBatch::State::kWaiting;
    if (is_in_the_way || each->is_begun() || ++each->num_passed >= capacity_) {
      left_out.push_back(each.get());
    }
  }
  for (StagedBatch* each : left_out) Drop(each, leftovers);
}

void LookupPrefetcher::Close(StagedLookup* lookup) {
  StagedBatch* batch = lookup->batch_;
  lookup->batch_ = nullptr;
  if (++batch->num_closed == batch->lookups.size()) Remove(batch);
}

void LookupPrefetcher::Drop(StagedBatch* batch, Leftovers* leftovers) {
  for (const auto& lookup : batch->lookups) {
    if (lookup->batch_ == nullptr) continue;
    lookup->batch_ = nullptr;
    leftovers->work.push_back(std::move(lookup->work_));
    lookup->work_ = nullptr;
    leftovers->rows.push_back(std::move(lookup->rows_));
    lookup->area_->Remove(lookup.get());
    lookup->area_->CountDropped();
  }
  Remove(batch);
}

void LookupPrefetcher::Remove(StagedBatch* batch) {
  if (batch->state == StagedBatch::State::kReady) {
    --num_ready_;
    work_.NotifyOne();
  }
  batches_.erase(std::find_if(batches_.begin(), batches_.end(),
                              [batch](const auto& each) { return each.get() == batch; }));
}

void LookupPrefetcher::CountStep(bool has_waited) {
  num_waits_ += has_waited ? 1 : 0;
  if (++num_steps_ < kObservedSteps) return;
  if (num_waits_ > 1 && !is_stopping_) {
    if (options_.capacity == 0 && capacity_ < kMaxChosenCapacity) ++capacity_;
    const int64_t most = std::min(capacity_, kMaxChosenThreads);
    // If the system has no more threads, the existing ones suffice.
    if (options_.num_threads == 0 && num_threads_ < most && StartThread().ok()) ++num_threads_;
    work_.NotifyAll();
  }
  num_steps_ = 0;
  num_waits_ = 0;
}

int64_t LookupPrefetcher::capacity() const {
  const MutexLock lock(mutex_);
  return capacity_;
}

int64_t LookupPrefetcher::num_threads() const {
  const MutexLock lock(mutex_);
  return num_threads_;
}

int64_t LookupPrefetcher::max_staleness() const {
  const MutexLock lock(mutex_);
  return capacity_ + num_threads_;
}

int64_t LookupPrefetcher::most_ahead() const {
  return options_.capacity == 0 ? std::max(options_.num_threads, kMaxChosenCapacity)
                                : options_.capacity;
}

int64_t LookupPrefetcher::num_ready() const {
  const MutexLock lock(mutex_);
  return num_ready_;
}

int64_t LookupPrefetcher::num_ahead() const {
  const MutexLock lock(mutex_);
  return num_working_ + num_ready_;
}

}  // namespace keras_sparse
