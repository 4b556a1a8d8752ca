// An executor that makes trouble: real threads, odd pieces, dealt from the end.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_THREAD_EXECUTOR_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_THREAD_EXECUTOR_H_

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>

#include "ops/core/base/executor.h"
#include "tests/ops/core/support/testing.h"

namespace keras_sparse {

// Threads live for one ParallelFor only, so thread_local state of the core starts anew as often as
// it is kept. One object may serve many callers at once.
class ThreadExecutor : public Executor {
 public:
  // `piece` units are given out at a time, more where that would make thousands of pieces.
  explicit ThreadExecutor(int num_threads, int64_t piece = 1)
      : num_threads_(num_threads), piece_(piece) {}

  void ParallelFor(int64_t total, int64_t unit_cost,
                   const std::function<void(int64_t, int64_t)>& body) override {
    EXPECT_FALSE(inside_) << "a body must not call ParallelFor";
    EXPECT_GT(unit_cost, 0);
    if (total <= 0) return;
    const int64_t piece = std::max(piece_, total / 1000);
    std::atomic<int64_t> left{(total + piece - 1) / piece};
    const auto work = [&] {
      inside_ = true;
      for (int64_t at = --left; at >= 0; at = --left) {
        body(at * piece, std::min(total, (at + 1) * piece));
      }
      inside_ = false;
    };
    std::vector<std::thread> threads;
    for (int i = 1; i < num_threads_; ++i) threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
  }

 private:
  static inline thread_local bool inside_ = false;

  int num_threads_;
  int64_t piece_;
};

// Calls a function with each number below `n`, all at once.
template <typename Number, typename Function>
void InThreads(Number n, const Function& function) {
  std::vector<std::thread> threads;
  for (Number i = 0; i < n; ++i) threads.emplace_back([&function, i] { function(i); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_THREAD_EXECUTOR_H_
