// Holds the only thread of a pool, so that a test sees what waits behind it.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_GATE_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_GATE_H_

#include <future>

#include "ops/core/base/background_pool.h"

namespace keras_sparse {

class Gate {
 public:
  explicit Gate(BackgroundPool* pool) {
    pool->Schedule([this] {
      held_.set_value();
      opened_.get_future().wait();
      passed_.set_value();
    });
    held_.get_future().wait();
  }
  ~Gate() { Open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // Returns when the thread is through.
  void Open() {
    if (is_open_) return;
    is_open_ = true;
    opened_.set_value();
    passed_.get_future().wait();
  }

 private:
  bool is_open_ = false;
  std::promise<void> held_;
  std::promise<void> opened_;
  std::promise<void> passed_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_GATE_H_
