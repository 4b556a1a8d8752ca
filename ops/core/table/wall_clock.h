// WallClock: the time that ages are measured against in tables that count ages in seconds.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_WALL_CLOCK_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_WALL_CLOCK_H_

#include <atomic>
#include <chrono>
#include <cstdint>

namespace keras_sparse {

// Counts whole seconds since 1970, modulo 2^32; only differences are meaningful. A time is later
// than another if it is ahead by less than 2^31 seconds (68 years).
//
// The clock stands still between two calls of Refresh and never runs backwards. If the system's
// clock is set back, or is behind the clock of imported rows, this clock waits until the system's
// has caught up. Otherwise rows would be in the future, and their ages would wrap to the largest
// values.
//
// Thread safety: const methods may overlap; any other call needs exclusive access to the object.
class WallClock {
 public:
  using Source = uint32_t (*)();

  // Returns the seconds of the system's clock.
  static uint32_t SystemSeconds() {
    const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<uint32_t>(
        std::chrono::duration_cast<std::chrono::seconds>(since_1970).count());
  }

  explicit WallClock(Source source) : source_(source), seconds_(source()) {}

  uint32_t seconds() const { return seconds_.load(std::memory_order_relaxed); }

  // Advances to the present.
  void Refresh() const { GoOn(source_()); }
  // Advances to `time`, unless it has passed.
  void GoOn(uint32_t time) const {
    uint32_t seconds = this->seconds();
    while (IsLater(time, seconds) && !seconds_.compare_exchange_weak(seconds, time)) {
    }
  }
  // Restarts at `time`, or at the present if that is later.
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
  mutable std::atomic<uint32_t> seconds_;  // readers of the table refresh it too
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_WALL_CLOCK_H_
