#include "ops/core/eviction/eviction_policy.h"

#include <cmath>

#include "tests/ops/core/support/eviction_testing.h"

namespace keras_sparse::eviction_policy_test {

bool GoesAt(const EvictionPolicy& policy, uint32_t age) { return policy.Evicts(age, nullptr, 0); }

bool Goes(const EvictionPolicy& policy, const std::vector<float>& row) {
  return policy.Evicts(0, row.data(), static_cast<int64_t>(row.size()));
}

TEST(GlobalStep, LetsARowGoThatIsOlderThanItsSteps) {
  const auto policy = MakePolicy(OlderThan(3));
  EXPECT_TRUE(policy->needs_age());
  EXPECT_FALSE(policy->needs_row());
  for (const uint32_t age : {0u, 1u, 2u, 3u}) EXPECT_FALSE(GoesAt(*policy, age)) << age;
  for (const uint32_t age : {4u, 5u, 1u << 31, UINT32_MAX}) EXPECT_TRUE(GoesAt(*policy, age));
  const auto longest = MakePolicy(OlderThan(0x1p31 - 1));
  EXPECT_FALSE(GoesAt(*longest, (1u << 31) - 1));
  EXPECT_TRUE(GoesAt(*longest, 1u << 31));
}

TEST(TimeToLive, LetsARowGoThatIsOlderThanItsSeconds) {
  const auto policy = MakePolicy(OlderThanSeconds(3.5));
  EXPECT_TRUE(policy->needs_age() && policy->takes_seconds());
  EXPECT_FALSE(MakePolicy(OlderThan(3))->takes_seconds());
  for (const uint32_t age : {0u, 3u}) EXPECT_FALSE(GoesAt(*policy, age)) << age;
  for (const uint32_t age : {4u, 1u << 31, UINT32_MAX}) EXPECT_TRUE(GoesAt(*policy, age)) << age;
  const auto longest = MakePolicy(OlderThanSeconds(0x1p31 - 1));
  EXPECT_FALSE(GoesAt(*longest, (1u << 31) - 1));
  EXPECT_TRUE(GoesAt(*longest, 1u << 31));
}

TEST(L2Weight, LetsARowGoThatIsBelowItsThreshold) {
  const auto policy = MakePolicy(WeightBelow(12.5));
  EXPECT_TRUE(policy->needs_row());
  EXPECT_FALSE(policy->needs_age());
  EXPECT_FALSE(Goes(*policy, {3, -4}));  // 12.5 itself
  EXPECT_TRUE(Goes(*policy, {3, std::nextafter(4.0f, 0.0f)}));
  EXPECT_TRUE(Goes(*policy, {0, 0}));
}

TEST(L2Weight, TakesEachElementOnceInRowsOfAnyLength) {
  for (int64_t dim = 1; dim <= 40; ++dim) {
    for (int64_t i = 0; i < dim; ++i) {
      std::vector<float> row(static_cast<size_t>(dim), 0.0f);
      row[static_cast<size_t>(i)] = 2;
      EXPECT_FALSE(Goes(*MakePolicy(WeightBelow(2)), row));
      EXPECT_TRUE(Goes(*MakePolicy(WeightBelow(2.0001)), row));
    }
  }
}

TEST(L2Weight, IsThatOfFloat64) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<float> row = RandomFloats(1 + static_cast<int64_t>(seed) * 3, seed);
    double sum = 0;
    for (const float value : row) sum += static_cast<double>(value) * value;
    EXPECT_TRUE(Goes(*MakePolicy(WeightBelow(0.5 * sum * (1 + 1e-12))), row));
    EXPECT_FALSE(Goes(*MakePolicy(WeightBelow(0.5 * sum * (1 - 1e-12))), row));
  }
}

TEST(L2Weight, KeepsARowThatIsNoNumber) {
  const auto policy = MakePolicy(WeightBelow(1e300));
  EXPECT_TRUE(Goes(*policy, {1e38f, 1e38f}));  // its squares fit a double
  EXPECT_FALSE(Goes(*policy, {std::numeric_limits<float>::quiet_NaN(), 0}));
  EXPECT_FALSE(Goes(*policy, {std::numeric_limits<float>::infinity(), 0}));
}

TEST(EvictionPolicy, RefusesWhatItCannotBe) {
  std::unique_ptr<EvictionPolicy> policy;
  const auto refused = [&](const EvictionOptions& options, const std::string& words) {
    EXPECT_TRUE(
        FailsWith(StatusCode::kInvalidArgument, words, EvictionPolicy::Create(options, &policy)));
  };
  refused({"oldest", {}}, "Received: 'oldest'");
  refused({"l2_weight", {{"threshold", 1}}},
          "of policy 'l2_weight' must be ('l2_weight_threshold'). Received: ('threshold')");
  for (const double steps : {0.0, -1.0, 1.5, 0x1p31, std::nan("")}) {
    refused(OlderThan(steps), "`steps_to_live` must be an integer in [1, 2^31)");
  }
  for (const double seconds : {0.0, 0.5, -1.0, 0x1p31, std::nan(""), HUGE_VAL}) {
    refused(OlderThanSeconds(seconds), "`seconds` must be in [1, 2^31)");
  }
  for (const double threshold : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    refused(WeightBelow(threshold), "`l2_weight_threshold` must be above 0 and finite");
  }
  EXPECT_EQ(policy, nullptr);
}

}  // namespace keras_sparse::eviction_policy_test
