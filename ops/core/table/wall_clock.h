// WallClock: the time that rows' ages are counted to, in a table that counts them in seconds.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_WALL_CLOCK_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_WALL_CLOCK_H_

#include <atomic>
#include <chrono>
#include <cstdint>

namespace keras_sparse {

// Whole seconds since 1970, modulo 2^32: only differences mean something. A time is later than
// another one if it is less than 2^31 seconds, 68 years, ahead of it.
//
// It stands still between two calls of Refresh, and never goes back: a system's clock that was set
// back, or that is behind the one that rows come from, holds it until time has caught up. Or else
// rows would lie in the future, and their ages, which wrap, would be the greatest of all.
//
// Thread safety: const methods may overlap; any other call needs the object alone.
class WallClock {
 public:
  using Source = uint32_t (*)();

  // By the system's clock.
  static uint32_t SystemSeconds() {
    const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<uint32_t>(
        std::chrono::duration_cast<std::chrono::seconds>(since_1970).count());
  }

  explicit WallClock(Source source) : source_(source), seconds_(source()) {}

  uint32_t seconds() const { return seconds_.load(std::memory_order_relaxed); }

  // Goes on to the present.
  void Refresh() const { GoOn(source_()); }
  // Goes on to this time, unless that has passed.
  void GoOn(uint32_t time) const {
    uint32_t seconds = this->seconds();
    while (IsLater(time, seconds) && !seconds_.compare_exchange_weak(seconds, time)) {
    }
  }
  // Begins anew, at this time or, if that is later, at the present.
  // REQUIRES: no row is of a later time
  void Restart(uint32_t time) {
    seconds_.store(time);
    Refresh();
  }

 private:
  static bool IsLater(uint32_t time, uint32_t than) {
    return time != than && time - than < uint32_t{1} << 31;
  }

  const Source source_;
  mutable std::atomic<uint32_t> seconds_;  // those who read the table refresh it, too
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_WALL_CLOCK_H_
