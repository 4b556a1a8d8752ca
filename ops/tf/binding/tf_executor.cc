#include "ops/tf/binding/tf_executor.h"

#include <algorithm>
#include <atomic>
#include <memory>

#include "ops/core/base/mutex.h"

namespace keras_sparse {
namespace {

// Fine enough that threads finish together, coarse enough that taking a block costs nothing.
constexpr int64_t kBlocksPerThread = 64;
constexpr int64_t kMinBlockNanoseconds = 8000;
// How often the caller polls for the end of the others' last blocks before it sleeps: a few
// microseconds, because another thread may need this processor to finish.
constexpr int kSpins = 100;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// A loop that threads join and leave. It may outlive the call that created it: a thread that joins
// late finds no block left, and does not access `body`.
class Loop {
 public:
  Loop(int64_t total, int64_t block, const std::function<void(int64_t, int64_t)>& body)
      : total_(total), block_(block), num_blocks_((total + block - 1) / block), body_(body) {}

  int64_t num_blocks() const { return num_blocks_; }

  // Runs blocks until none is left.
  void Join() {
    int64_t done = 0;
    for (int64_t i; (i = next_.fetch_add(1)) < num_blocks_; ++done) {
      body_(i * block_, std::min(total_, (i + 1) * block_));
    }
    if (done == 0 || num_done_.fetch_add(done) + done < num_blocks_) return;
    const MutexLock lock(mutex_);
    all_done_.NotifyAll();
  }

  // Returns when all blocks are done.
  void Wait() {
    for (int i = 0; i < kSpins; ++i, Pause()) {
      if (AllDone()) return;
    }
    const MutexLock lock(mutex_);
    while (!AllDone()) all_done_.Wait(mutex_);
  }

 private:
  bool AllDone() const { return num_done_.load() == num_blocks_; }

  const int64_t total_;
  const int64_t block_;
  const int64_t num_blocks_;
  const std::function<void(int64_t, int64_t)>& body_;
  std::atomic<int64_t> next_{0};
  std::atomic<int64_t> num_done_{0};
  Mutex mutex_;
  ConditionVariable all_done_;
};

}  // namespace

void TfExecutor::ParallelFor(int64_t total, int64_t unit_cost,
                             const std::function<void(int64_t, int64_t)>& body) {
  if (total <= 0) return;
  const int64_t num_threads = pool_->NumThreads();
  const int64_t block_cost =
      std::max(total * unit_cost / (kBlocksPerThread * num_threads), kMinBlockNanoseconds);
  const int64_t block = std::clamp(block_cost / std::max<int64_t>(unit_cost, 1), int64_t{1}, total);
  if (block == total) return body(0, total);
  const auto loop = std::make_shared<Loop>(total, block, body);
  const int64_t num_helpers = std::min(loop->num_blocks(), num_threads) - 1;
  for (int64_t i = 0; i < num_helpers; ++i) pool_->Schedule([loop] { loop->Join(); });
  loop->Join();
  loop->Wait();
}

}  // namespace keras_sparse
