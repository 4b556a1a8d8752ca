// OfThisProcess: objects of which each process has one.
#ifndef KERAS_SPARSE_OPS_CORE_BASE_PER_PROCESS_H_
#define KERAS_SPARSE_OPS_CORE_BASE_PER_PROCESS_H_

#include <sys/types.h>
#include <unistd.h>

#include <atomic>

namespace keras_sparse {

// Creates a `T` on first use, and a new one in a process forked from the first: there the old
// object has lost its threads, and belongs to the parent. The object outlives tables in static
// objects.
//
// Thread safety: may be called from any thread. Uses no lock, because another thread could hold a
// lock during a fork.
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
    // A failed exchange reads the object of another thread.
    if (newest.compare_exchange_strong(made, own)) return &own->object;
    delete own;
  }
  return &made->object;
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_BASE_PER_PROCESS_H_
