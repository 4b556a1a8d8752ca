// TableMutex: the lock of a table.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_TABLE_MUTEX_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_TABLE_MUTEX_H_

#include <mutex>
#include <shared_mutex>

#include "ops/core/base/thread_annotations.h"

namespace keras_sparse {

// A fair shared mutex: a waiting thread holds the turn, so that updates run however many lookups
// overlap. With a std::shared_mutex alone, lookups would pass a waiting update.
class CAPABILITY("mutex") TableMutex {
 public:
  void lock() ACQUIRE() {
    const std::lock_guard<std::mutex> turn(turn_);
    mutex_.lock();
  }
  void unlock() RELEASE() { mutex_.unlock(); }

  void lock_shared() ACQUIRE_SHARED() {
    const std::lock_guard<std::mutex> turn(turn_);
    mutex_.lock_shared();
  }
  void unlock_shared() RELEASE_SHARED() { mutex_.unlock_shared(); }

 private:
  std::mutex turn_;
  std::shared_mutex mutex_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_TABLE_MUTEX_H_
