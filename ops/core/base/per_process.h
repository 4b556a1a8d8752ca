// Objects of which a process has one.
#ifndef KERAS_SPARSE_OPS_CORE_BASE_PER_PROCESS_H_
#define KERAS_SPARSE_OPS_CORE_BASE_PER_PROCESS_H_

#include <sys/types.h>
#include <unistd.h>

#include <atomic>

namespace keras_sparse {

// Makes a `T` when it is first asked for, and a new one in a process that was forked from that
// one: there the first has lost its threads, and is its parent's. What it made outlives the tables
// that static objects hold.
//
// Thread safety: may be called from any thread. No lock, which another thread could hold while the
// process is forked.
template <typename T>
T* OfThisProcess() {
  struct Made {
    const pid_t process = ::getpid();
    T object;
  };
  static std::atomic<Made*> newest{nullptr};
  Made* made = newest.load();
  while (made == nullptr || made->process != ::getpid()) {
    auto* own = new Made;
    // A failed exchange reads what another thread has made.
    if (newest.compare_exchange_strong(made, own)) return &own->object;
    delete own;
  }
  return &made->object;
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_BASE_PER_PROCESS_H_
