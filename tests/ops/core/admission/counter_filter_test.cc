
#include "tests/ops/core/support/filter_testing.h"

namespace keras_sparse::counter_filter_test {

TEST(CounterFilter, AdmitsFromWhenTheCountIsReachedUntilItIsToldOfTheRow) {
  const auto filter = Make(Counter(3));
  for (const int64_t key : ExtremeKeys()) {
    EXPECT_FALSE(filter->Admit(key, 1));
    EXPECT_FALSE(filter->Admit(key, 1));
    EXPECT_TRUE(filter->Admit(key, 1));
    EXPECT_TRUE(filter->Admit(key, 1));
    filter->Forget(key);
    EXPECT_FALSE(filter->Admit(key, 1));
  }
  EXPECT_EQ(filter->num_waiting(), 5);
  filter->Clear();
  EXPECT_EQ(filter->num_waiting(), 0);
  EXPECT_EQ(Entries(*filter).keys.size(), 0u);
}

TEST(CounterFilter, CountsSeveralOccurrencesAtOnce) {
  ExpectCountsOfFiveOccurrences(Make(Counter(5, true)).get());
}

TEST(CounterFilter, OfOneRemembersNothing) {
  const auto filter = Make(Counter(1));
  for (int64_t key = 0; key < 100; ++key) EXPECT_TRUE(filter->Admit(key, 1));
  EXPECT_EQ(filter->num_waiting(), 0);
}

TEST(CounterFilter, ComesBackFromItsEntriesWhateverTheirPieces) {
  const auto filter = Make(Counter(5));
  std::map<int64_t, uint32_t> expected;
  for (const int64_t key : RandomIds(3000, -1000, 1000, 1)) {
    if (expected[key] < 4) {
      (void)filter->Admit(key, 1);
      ++expected[key];
    }
  }
  for (const int64_t max_entries : {1, 7, 100000}) {
    const FilterEntries entries = Entries(*filter, max_entries);
    EXPECT_EQ(ByKey(entries), expected);
    const auto copy = Make(Counter(5));
    ASSERT_TRUE(IsOk(copy->Restore(entries.keys.data(), entries.counts.data(),
                                   static_cast<int64_t>(entries.keys.size()))));
    EXPECT_EQ(ByKey(Entries(*copy)), expected);
  }
}

TEST(CounterFilter, OfASmallerFrequencyAdmitsARestoredKeyAtItsNextStep) {
  const auto filter = Make(Counter(2));
  const int64_t key = 9;
  const uint32_t count = 7;
  ASSERT_TRUE(IsOk(filter->Restore(&key, &count, 1)));
  EXPECT_EQ(filter->num_waiting(), 1);
  EXPECT_TRUE(filter->Admit(key, 1));
}

// All included: shards, slack, and the object itself.
TEST(CounterFilter, TakesAtMostSixteenBytesAKey) {
  for (const int64_t n : {20000, 50000, 123456, 500000, 1000000}) {
    const auto filter = Make(Counter(2));
    for (int64_t key = 0; key < n; ++key) (void)filter->Admit(key * 1000003, 1);
    EXPECT_EQ(filter->num_waiting(), n);
    EXPECT_LE(filter->bytes(), 16 * n) << n << " keys";
    EXPECT_GE(filter->bytes(), 12 * n);
  }
}

TEST(CounterFilter, RefusesWhatIsNoFrequency) {
  std::unique_ptr<AdmissionFilter> filter;
  for (const double frequency : {0.0, -1.0, 1.5, 4294967296.0, std::nan("")}) {
    EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "`filter_freq` must be an integer in [1,",
                          AdmissionFilter::Create(Counter(frequency), &filter)));
  }
  FilterOptions other = Counter(1);
  other.filter = "bouncer";
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "must be one of (",
                        AdmissionFilter::Create(other, &filter)));
  other = Counter(1);
  other.constants["p"] = 1;
  EXPECT_TRUE(
      FailsWith(StatusCode::kInvalidArgument,
                "the constants of filter 'counter' must be ('counts_occurrences', 'filter_freq')",
                AdmissionFilter::Create(other, &filter)));
}

}  // namespace keras_sparse::counter_filter_test
