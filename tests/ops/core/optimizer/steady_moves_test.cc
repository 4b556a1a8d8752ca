// Missed moves at a rate that stays the same: once it has for longer than moves last, a step is not
// looked at any more.
#include <cmath>
#include <utility>

#include "ops/core/optimizer/deferred_updates.h"
#include "tests/ops/core/support/testing.h"

namespace keras_sparse::steady_moves_test {

TEST(SteadyMoves, AreTheSameAfterManyStepsOfOneRateAsAfterFew) {
  for (const auto& [mu, nu_squared] : {std::pair{0.9, 0.999}, {0.95, 0.9}, {0.9, 1.0}}) {
    DeferredUpdates few(mu, std::sqrt(nu_squared), 1e-7);
    DeferredUpdates many(mu, std::sqrt(nu_squared), 1e-7);
    const int64_t num_few = few.reach() + 1;
    const int64_t num_many = 3 * num_few + 1000;
    for (int64_t step = 0; step < num_few; ++step) few.Append(0.1, 1, 0.999);
    for (int64_t step = 0; step < num_many; ++step) many.Append(0.1, 1, 0.999);
    for (int64_t later = 0; later < 300; ++later) {
      for (int64_t before = later == 0 ? 1 : 0; before < num_few; ++before) {
        ASSERT_EQ(few.From(num_few - before), many.From(num_many - before)) << "after " << later;
      }
      for (DeferredUpdates* moves : {&few, &many}) moves->Append(later % 60 < 50 ? 0.2 : 0.5, 1, 1);
    }
  }
}

TEST(SteadyMoves, BeginAnewWhenTheStepsAreForgotten) {
  for (const double nu : {std::sqrt(0.999), 1.0}) {
    DeferredUpdates forgetful(0.9, nu, 1e-7);
    DeferredUpdates fresh(0.9, nu, 1e-7);
    for (int64_t step = 0; step < 1000; ++step) forgetful.Append(0.1, 1, 1);
    forgetful.Forget();
    for (int64_t step = 0; step < 500; ++step) {
      for (DeferredUpdates* moves : {&forgetful, &fresh}) moves->Append(0.1, 1, 1);
      for (int64_t from = 0; from <= step; ++from) {
        ASSERT_EQ(forgetful.From(1000 + from), fresh.From(from)) << "after " << step;
      }
    }
  }
}

}  // namespace keras_sparse::steady_moves_test
