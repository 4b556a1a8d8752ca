#include "ops/core/table/wall_clock.h"

#include <chrono>

#include "tests/ops/core/support/testing.h"

namespace keras_sparse::wall_clock_test {

uint32_t present = 0;

uint32_t Present() { return present; }

TEST(WallClock, GoesOnWithTheSystemAndNeverBack) {
  // Also where the seconds of 32 bits begin anew.
  for (const uint32_t start : {1000u, 1u << 31, UINT32_MAX - 5}) {
    present = start;
    const WallClock clock(Present);
    present = start + 10;
    EXPECT_EQ(clock.seconds(), start) << "it stands still between two calls";
    clock.Refresh();
    EXPECT_EQ(clock.seconds(), start + 10);
    for (const uint32_t back : {start + 9, start - 100}) {
      present = back;
      clock.Refresh();
      EXPECT_EQ(clock.seconds(), start + 10);
    }
    present = start + 11;
    clock.Refresh();
    EXPECT_EQ(clock.seconds(), start + 11);
  }
}

TEST(WallClock, WaitsForTheTimeOfRowsFromElsewhere) {
  present = 1000;
  WallClock clock(Present);
  clock.GoOn(900);
  EXPECT_EQ(clock.seconds(), 1000u);
  clock.GoOn(5000);
  clock.Refresh();
  EXPECT_EQ(clock.seconds(), 5000u);
  present = 5001;
  clock.Refresh();
  EXPECT_EQ(clock.seconds(), 5001u);
  // Of no row any more.
  clock.GoOn(9000);
  clock.Restart(7000);
  EXPECT_EQ(clock.seconds(), 7000u);
  clock.Restart(10);
  EXPECT_EQ(clock.seconds(), 5001u);
}

TEST(WallClock, CountsTheSecondsSince1970) {
  const auto seconds = [] {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::seconds>(now).count();
  };
  const int64_t before = seconds();
  const int64_t between = before + (WallClock::SystemSeconds() - static_cast<uint32_t>(before));
  EXPECT_LE(before, between);
  EXPECT_LE(between, seconds());
}

}  // namespace keras_sparse::wall_clock_test
