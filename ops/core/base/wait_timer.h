// WaitTimer: measures the time of waiting.
#ifndef KERAS_SPARSE_OPS_CORE_BASE_WAIT_TIMER_H_
#define KERAS_SPARSE_OPS_CORE_BASE_WAIT_TIMER_H_

#include <atomic>
#include <chrono>
#include <cstdint>

namespace keras_sparse {

// Adds the nanoseconds of its lifetime to a sum.
class WaitTimer {
 public:
  explicit WaitTimer(std::atomic<int64_t>* total) : total_(total) {}
  ~WaitTimer() {
    const auto waited = std::chrono::steady_clock::now() - start_;
    *total_ += std::chrono::duration_cast<std::chrono::nanoseconds>(waited).count();
  }
  WaitTimer(const WaitTimer&) = delete;
  WaitTimer& operator=(const WaitTimer&) = delete;

 private:
  std::atomic<int64_t>* total_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_BASE_WAIT_TIMER_H_
