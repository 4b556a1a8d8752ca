#include <cmath>

#include "ops/core/math/philox.h"
#include "tests/ops/core/support/filter_testing.h"

namespace keras_sparse::probability_filter_test {

// One training step with these keys.
std::vector<bool> Step(AdmissionFilter* filter, const std::vector<int64_t>& keys) {
  filter->BeginStep();
  std::vector<bool> admitted;
  for (const int64_t key : keys) admitted.push_back(filter->Admit(key, 1));
  return admitted;
}

double Share(const std::vector<bool>& admitted) {
  double sum = 0;
  for (const bool each : admitted) sum += each ? 1 : 0;
  return sum / static_cast<double>(admitted.size());
}

std::vector<int64_t> Keys(int64_t n) {
  std::vector<int64_t> keys;
  for (int64_t key = 0; key < n; ++key) keys.push_back(key - n / 2);
  return keys;
}

TEST(ProbabilityFilter, AdmitsTheShareOfKeysThatItIsAskedFor) {
  const std::vector<int64_t> keys = Keys(100000);
  for (const double p : {0.001, 0.1, 0.5, 0.9}) {
    const auto filter = Make(Probability(p));
    for (int step = 0; step < 3; ++step) {
      const double deviation = std::sqrt(p * (1 - p) / 100000);
      EXPECT_NEAR(Share(Step(filter.get(), keys)), p, 4 * deviation);
    }
  }
  const auto all = Make(Probability(1));
  EXPECT_EQ(Share(Step(all.get(), keys)), 1);
}

TEST(ProbabilityFilter, AnswersByKeyStepAndSeedAlone) {
  const std::vector<int64_t> keys = Keys(1000);
  const std::vector<int64_t> backwards(keys.rbegin(), keys.rend());
  const auto filter = Make(Probability(0.5));
  const auto same = Make(Probability(0.5));
  const auto other = Make(Probability(0.5, 2));
  const std::vector<bool> first = Step(filter.get(), keys);
  std::vector<bool> reversed = Step(same.get(), backwards);
  EXPECT_EQ(first, std::vector<bool>(reversed.rbegin(), reversed.rend()));
  EXPECT_NE(first, Step(other.get(), keys));
  // Steps are independent of each other.
  const std::vector<bool> second = Step(filter.get(), keys);
  double both = 0;
  for (size_t i = 0; i < keys.size(); ++i) both += first[i] && second[i] ? 1 : 0;
  EXPECT_NEAR(both / 1000, 0.25, 0.06);
  filter->Clear();
  EXPECT_EQ(Step(filter.get(), keys), first);
}

// With the same seed, the first word of an initial row must say nothing of the key's admission.
TEST(ProbabilityFilter, DrawsOtherNumbersThanInitialRows) {
  const std::vector<int64_t> keys = Keys(10000);
  const auto filter = Make(Probability(0.5, 1));
  const std::vector<bool> admitted = Step(filter.get(), keys);
  double same = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto bits = static_cast<uint64_t>(keys[i]);
    const auto [words] =
        Philox({1, 0, static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)}, {1, 0});
    same += (words[0] < 0x80000000u) == admitted[i] ? 1 : 0;
  }
  EXPECT_NEAR(same / 10000, 0.5, 0.03);
}

TEST(ProbabilityFilter, GoesOnFromItsStepAndSeed) {
  const std::vector<int64_t> keys = Keys(1000);
  const auto filter = Make(Probability(0.5, -9));
  for (int step = 0; step < 7; ++step) (void)Step(filter.get(), keys);
  for (const int64_t max_entries : {1, 100}) {
    const FilterEntries entries = Entries(*filter, max_entries);
    EXPECT_EQ(entries.counts, (std::vector<uint32_t>{7, 0, 0xFFFFFFF7u, 0xFFFFFFFFu}));
    const auto copy = Make(Probability(0.5, 4));
    ASSERT_TRUE(IsOk(copy->Restore(entries.keys.data(), entries.counts.data(), 4)));
    EXPECT_EQ(Entries(*copy).counts, entries.counts);
    const auto again = Make(Probability(0.5, 4));
    ASSERT_TRUE(IsOk(again->Restore(entries.keys.data(), entries.counts.data(), 4)));
    EXPECT_EQ(Step(copy.get(), keys), Step(again.get(), keys));
  }
}

TEST(ProbabilityFilter, RefusesWhatIsNone) {
  std::unique_ptr<AdmissionFilter> filter;
  for (const double p : {0.0, -0.5, 1.5, std::nan("")}) {
    EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "`p` must be above 0 and at most 1",
                          AdmissionFilter::Create(Probability(p), &filter)));
  }
  const int64_t key = 4;
  const uint32_t count = 0;
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "must be in [0, 4). Received: keys[0] = 4",
                        Make(Probability(0.5))->Restore(&key, &count, 1)));
}

}  // namespace keras_sparse::probability_filter_test
