#include "ops/core/optimizer/deferred_updates.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "tests/ops/core/support/testing.h"

namespace keras_sparse::deferred_updates_test {

struct Step {
  double weight;
  double offset = 1;
  double keep = 1;
};
using Schedule = std::function<Step(int64_t step)>;

// DeferredUpdates beside all of its steps, to sum them up one by one.
class Walker {
 public:
  Walker(double mu, double nu, double epsilon)
      : mu_(mu), nu_(nu), epsilon_(epsilon), moves_(mu, nu, epsilon) {}

  void Append(const Step& step) {
    steps_.push_back(step);
    moves_.Append(step.weight, step.offset, step.keep);
  }
  void Append(const Schedule& schedule, int64_t n) {
    for (int64_t i = 0; i < n; ++i) Append(schedule(num_steps()));
  }
  int64_t num_steps() const { return static_cast<int64_t>(steps_.size()); }
  const DeferredUpdates& moves() const { return moves_; }

  // How far a momentum of one moves a row of this scale in the steps after `first`, by pieces.
  double ByPieces(int64_t first, double scale) const {
    double moved = 0;
    double momentum = 1;
    int64_t from = first;
    while (from < num_steps() && from - first < moves_.reach()) {
      const DeferredUpdates::Piece& piece = moves_.From(from);
      EXPECT_GT(piece.length, 0);
      EXPECT_LE(from + piece.length, num_steps());
      for (int64_t i = 0; i < piece.length; ++i) moved *= steps_[Index(from + i)].keep;
      moved += momentum * static_cast<double>(
                              piece.Over(static_cast<float>(scale), static_cast<float>(epsilon_)));
      momentum *= std::pow(mu_, piece.length);
      scale *= std::pow(nu_, piece.length);
      from += piece.length;
    }
    for (; from < num_steps(); ++from) moved *= steps_[Index(from)].keep;
    return moved;
  }

  void Check(int64_t first, double scale) const {
    double moved = 0;
    double size = 0;      // of all moves, whatever their signs
    double greatest = 0;  // the same, had all steps the greatest weight
    double weight = 0;
    double momentum = 1;
    double at = scale;
    for (int64_t k = first; k < num_steps(); ++k) {
      weight = std::max(weight, std::abs(steps_[Index(k)].weight));
    }
    for (int64_t k = first; k < num_steps(); ++k) {
      const Step& step = steps_[Index(k)];
      momentum *= mu_;
      at *= nu_;
      const double move = momentum / (at + epsilon_ * step.offset);
      moved = step.keep * moved + step.weight * move;
      size = step.keep * size + std::abs(step.weight) * move;
      greatest += weight * move;
    }
    const double tolerance = 2e-6 * size + 1e-8 * greatest;
    ASSERT_NEAR(ByPieces(first, scale), moved, tolerance)
        << "from " << first << " to " << num_steps() << " at scale " << scale << ", mu " << mu_
        << ", nu^2 " << nu_ * nu_ << ", epsilon " << epsilon_;
  }

  void CheckAll(const std::vector<double>& scales) const {
    for (const int64_t gap : {1, 2, 3, 7, 30, 77, 150, 197, 198, 250, 400, 1024, 1025, 1900}) {
      if (gap > num_steps()) break;
      for (const double scale : scales) ASSERT_NO_FATAL_FAILURE(Check(num_steps() - gap, scale));
    }
  }

 private:
  static size_t Index(int64_t step) { return static_cast<size_t>(step); }

  double mu_;
  double nu_;
  double epsilon_;
  DeferredUpdates moves_;
  std::vector<Step> steps_;
};

const std::vector<double> kScales = {0, 1e-12, 1e-9, 1e-7, 1e-5, 1e-3, 0.03, 1, 1e3};

// Learning rates as they come, each with a little decay where it says so.
std::vector<std::pair<std::string, Schedule>> Schedules() {
  const auto random = [] {
    return [random = std::make_shared<std::mt19937>(3)] {
      return std::uniform_real_distribution<double>(0, 1)(*random);
    };
  };
  return {
      {"constant", [](int64_t) { return Step{0.01}; }},
      {"constant_with_decay", [](int64_t) { return Step{0.01, 1, 0.9999}; }},
      {"bias_corrected",
       [](int64_t t) {
         const auto step = static_cast<double>(t + 1);
         return Step{0.01 * std::sqrt(1 - std::pow(0.999, step)) / (1 - std::pow(0.9, step))};
       }},
      {"nadam",
       [](int64_t t) {
         const double bias = std::sqrt(1 - std::pow(0.999, static_cast<double>(t + 1)));
         return Step{0.01 * bias, bias};
       }},
      {"random_with_decay",
       [next = random()](int64_t) {
         const double rate = next();
         return Step{rate, 1, 1 - 0.01 * rate};
       }},
      {"over_four_decades", [next = random()](int64_t) { return Step{std::pow(10, -4 * next())}; }},
      {"warm_up_then_cosine",
       [](int64_t t) {
         const auto step = static_cast<double>(t);
         const double rate = t < 300 ? step / 300 : 0.5 * (1 + std::cos((step - 300) / 600));
         return Step{rate, 1, 1 - 0.01 * rate};
       }},
      {"constant_in_stretches",
       [](int64_t t) { return Step{0.01 * static_cast<double>(1 + t / 600)}; }},
      {"zero_now_and_then",
       [](int64_t t) {
         const double rate = t / 150 % 2 == 0 ? 0.1 : 0;
         return Step{rate, 1, 1 - 0.1 * rate};
       }},
      {"of_both_signs", [next = random()](int64_t) { return Step{next() - 0.3}; }},
  };
}

struct Betas {
  double mu;
  double nu_squared;
  double epsilon = 1e-7;
};

class EverySchedule : public ::testing::TestWithParam<std::pair<std::string, Schedule>> {};

TEST_P(EverySchedule, MovesByPiecesAsStepByStep) {
  for (const Betas& betas : {Betas{0.9, 0.999}, Betas{0.9, 0.999, 1}, Betas{0.9, 0.9},
                             Betas{0.8, 0.95, 1e-3}, Betas{0.95, 0.9}, Betas{0.99, 0.9999},
                             Betas{0.5, 0.25}, Betas{1, 0.999}, Betas{0, 0.999}}) {
    Walker walker(betas.mu, std::sqrt(betas.nu_squared), betas.epsilon);
    for (const int64_t steps : {1, 3, 36, 160, 900, 900}) {
      walker.Append(GetParam().second, steps);
      ASSERT_NO_FATAL_FAILURE(walker.CheckAll(kScales));
      // Where moves do not shrink until the scale has, they go on for longer if it is larger.
      if (betas.mu < betas.nu_squared) {
        ASSERT_NO_FATAL_FAILURE(walker.CheckAll({1e4, 1e6}));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, EverySchedule, ::testing::ValuesIn(Schedules()),
                         [](const auto& schedule) { return schedule.param.first; });

TEST(DeferredUpdates, WithoutNuDivideByAScaleThatStays) {
  for (const double mu : {0.5, 0.9, 0.99, 1.0}) {
    Walker walker(mu, 1, 1e-7);
    for (int64_t step = 0; step < 5000; ++step) {
      walker.Append({0.01 * static_cast<double>(step % 7), 1, step % 2 == 0 ? 1 : 0.999});
      if (step % 1999 == 0) {
        ASSERT_NO_FATAL_FAILURE(walker.CheckAll(kScales));
      }
    }
    ASSERT_NO_FATAL_FAILURE(walker.CheckAll(kScales));
  }
}

TEST(DeferredUpdates, WithoutEpsilonDivideByTheScaleAlone) {
  for (const Betas& betas : {Betas{0.9, 0.999}, Betas{0.5, 0.999}, Betas{0.999, 0.9999}}) {
    Walker walker(betas.mu, std::sqrt(betas.nu_squared), 0);
    walker.Append([](int64_t t) { return Step{0.1 + 0.01 * static_cast<double>(t % 10)}; }, 2000);
    ASSERT_NO_FATAL_FAILURE(walker.CheckAll({1e-12, 1e-6, 1, 1e6}));
  }
}

TEST(DeferredUpdates, OfAMomentumThatStaysNeverEnd) {
  DeferredUpdates moves(1, 1, 0);
  for (int64_t step = 0; step < 3000; ++step) moves.Append(2, 1, 1);
  double total = 0;
  for (int64_t from = 0; from < 3000; from += moves.From(from).length) {
    total += static_cast<double>(moves.From(from).total);
  }
  EXPECT_EQ(total, 6000);
  EXPECT_GT(moves.reach(), int64_t{1} << 50);
}

TEST(DeferredUpdates, WithoutMomentumAreNone) {
  DeferredUpdates moves(0, std::sqrt(0.999), 1e-7);
  moves.Append(1, 1, 1);
  EXPECT_EQ(moves.reach(), 0);
}

TEST(DeferredUpdates, BeginAnywhereAmongRatesThatChangeNowAndThen) {
  for (const Betas& betas : {Betas{0.5, 0.999}, Betas{0.5, 0.6}, Betas{0.9, 1}}) {
    Walker walker(betas.mu, std::sqrt(betas.nu_squared), 1e-3);
    for (int64_t step = 0; step < 500; ++step) {
      walker.Append({step / 45 % 3 == 0 ? 0.1 : 0.2});
      if (step % 50 != 0) continue;
      for (int64_t first = 0; first <= step; ++first) {
        for (const double scale : {0.0, 1e-3, 1.0}) {
          ASSERT_NO_FATAL_FAILURE(walker.Check(first, scale));
        }
      }
    }
  }
}

TEST(DeferredUpdates, AreRightIfRatesOfBothSignsCancel) {
  for (const auto& [mu, nu] : {std::pair{0.5, 0.5}, {0.999, 0.999}, {0.9, 0.9}, {0.5, 0.25}}) {
    for (const std::vector<double>& weights : {std::vector<double>{1, -1},
                                               {1, -2},
                                               {-2, 1},
                                               {1, -1, 1},
                                               {1, 0, 0, -1},
                                               {4, -4, 1, -1}}) {
      Walker walker(mu, nu, 1e-3);
      for (const double weight : weights) {
        walker.Append({weight});
        ASSERT_NO_FATAL_FAILURE(walker.Check(0, 0));
        ASSERT_NO_FATAL_FAILURE(walker.Check(0, 1e-3));
        ASSERT_NO_FATAL_FAILURE(walker.Check(0, 1));
      }
    }
  }
}

// With betas that let later moves weigh more than earlier ones.
TEST(DeferredUpdates, BeforeALongStretchOfZeroRatesStillCount) {
  for (const Betas& betas : {Betas{0.9, 0.999}, Betas{0.99, 0.9}, Betas{0.9, 0.5}}) {
    for (const int64_t zeros : {50, 100, 200, 400, 700}) {
      Walker walker(betas.mu, std::sqrt(betas.nu_squared), betas.epsilon);
      for (int64_t step = 0; step < zeros + 6; ++step) {
        walker.Append({step < 3 || step >= zeros + 3 ? 0.1 : 0});
      }
      for (const double scale : kScales) ASSERT_NO_FATAL_FAILURE(walker.Check(0, scale));
    }
  }
}

TEST(DeferredUpdates, AfterALongStretchOfZeroRatesAreNumbers) {
  for (const Betas& betas : {Betas{0.9, 0.999}, Betas{0.99, 0.8}, Betas{0.9, 0.5}}) {
    Walker walker(betas.mu, std::sqrt(betas.nu_squared), betas.epsilon);
    walker.Append([](int64_t t) { return Step{t == 1099 ? 0.1 : 0}; }, 1100);
    for (int64_t first = 0; first < 1100; first += 20) {
      for (const double scale : kScales) ASSERT_NO_FATAL_FAILURE(walker.Check(first, scale));
    }
  }
}

TEST(DeferredUpdates, TakeOnePieceForAllStepsOfOneRate) {
  DeferredUpdates moves(0.9, std::sqrt(0.999), 1e-7);
  std::set<const DeferredUpdates::Piece*> pieces;
  for (int64_t step = 0; step < 5000; ++step) moves.Append(0.1, 1, 0.9999);
  for (int64_t from = 0; from < 5000; ++from) pieces.insert(&moves.From(from));
  EXPECT_LE(static_cast<int64_t>(pieces.size()), moves.reach() + 1);
  EXPECT_LE(moves.reach(), 200);
}

TEST(DeferredUpdates, ThatDecayShrinkAtAnyScale) {
  DeferredUpdates moves(0.9, std::sqrt(0.999), 1e-7);
  for (int64_t step = 0; step < 100; ++step) moves.Append(0.1, 1, 1);
  DeferredUpdates::Piece piece = moves.From(0);
  piece.Keep(0.5f);
  for (const float scale : {0.0f, 1e-7f, 1.0f}) {
    EXPECT_FLOAT_EQ(piece.Over(scale, 1e-7f), 0.5f * moves.From(0).Over(scale, 1e-7f));
  }
}

}  // namespace keras_sparse::deferred_updates_test
