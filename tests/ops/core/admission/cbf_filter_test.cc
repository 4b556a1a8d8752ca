#include <sys/sysinfo.h>

#include <cmath>

#include "tests/ops/core/support/filter_testing.h"

namespace keras_sparse::cbf_filter_test {

constexpr double kBits[] = {8, 16, 32, 64};

TEST(CbfFilter, AdmitsAKeyAloneWhenItsCountIsReached) {
  for (const double bits : kBits) {
    const auto filter = Make(Cbf(4, 1000, 0.01, bits));
    for (const int64_t key : ExtremeKeys()) {
      for (int count = 1; count < 4; ++count) EXPECT_FALSE(filter->Admit(key, 1));
      EXPECT_TRUE(filter->Admit(key, 1));
      filter->Forget(key);
      EXPECT_TRUE(filter->Admit(key, 1)) << "it keeps no keys that it could forget";
    }
    filter->Clear();
    EXPECT_EQ(Entries(*filter).keys.size(), 0u);
    EXPECT_FALSE(filter->Admit(0, 1));
  }
}

TEST(CbfFilter, CountsSeveralOccurrencesAtOnce) {
  for (const double bits : kBits) {
    ExpectCountsOfFiveOccurrences(Make(Cbf(5, 1000, 0.01, bits, true)).get());
  }
}

TEST(CbfFilter, CountsUpToTheLargestFrequencyOfItsType) {
  const auto filter = Make(Cbf(255, 100, 0.01, 8));
  for (int count = 1; count < 255; ++count) ASSERT_FALSE(filter->Admit(9, 1)) << count;
  for (int again = 0; again < 10; ++again) ASSERT_TRUE(filter->Admit(9, 1));
  EXPECT_FALSE(filter->Admit(10, 1));
}

TEST(CbfFilter, NeverAdmitsLate) {
  // A tenth of the keys that come, so that nearly all counters are shared.
  const auto filter = Make(Cbf(5, 1000, 0.1, 8));
  std::map<int64_t, int> counts;
  for (const int64_t key : RandomIds(60000, -5000, 5000, 1)) {
    const bool admitted = filter->Admit(key, 1);
    ASSERT_TRUE(admitted || ++counts[key] < 5);
  }
}

// Of occurrences, several of a key and of others at once.
TEST(CbfFilter, NeverAdmitsLateWhereAStepCountsThoseThatWait) {
  const auto filter = Make(Cbf(5, 3, 0.5, 8, true));  // few counters
  std::map<int64_t, int64_t> counts;
  for (uint64_t step = 0; step < 3000; ++step) {
    std::map<int64_t, uint32_t> occurrences;
    for (const int64_t key : RandomIds(6, 0, 8, step)) ++occurrences[key];
    std::vector<int64_t> waiting;
    for (const auto& [key, n] : occurrences) {
      if (filter->WouldAdmit(key, n)) continue;
      ASSERT_LT(counts[key] += n, 5) << step;
      waiting.push_back(key);
    }
    for (const int64_t key : waiting) filter->CountWaiting(key, occurrences[key]);
    if (step % 4 == 3) {  // it is soon full
      filter->Clear();
      counts.clear();
    }
  }
}

// The share of new keys that are admitted although they come for the first time, once as many keys
// as the filter is made for have been counted.
TEST(CbfFilter, AdmitsEarlyAboutAsOftenAsItIsAllowedTo) {
  for (const double p : {0.5, 0.1, 0.01, 0.001}) {
    for (const int64_t n : {1000, 20000, 300000}) {
      double early = 0;
      double asked = 0;
      for (int64_t seed = 0; asked * p < 200 && seed < 20; ++seed) {
        const auto filter = Make(Cbf(2, static_cast<double>(n), p, 8));
        const int64_t first = seed << 40;
        for (int64_t key = first; key < first + n; ++key) (void)filter->Admit(key, 1);
        // Few, as each of them fills the filter further.
        for (int64_t key = first + n; key < first + n + n / 20; ++key) {
          early += filter->Admit(key, 1) ? 1 : 0;
          ++asked;
        }
      }
      const double expected = asked * p;
      EXPECT_LE(early, 1.4 * expected + 4 * std::sqrt(expected) + 3) << p << " of " << n;
      EXPECT_GE(early, 0.5 * expected - 4 * std::sqrt(expected)) << p << " of " << n;
    }
  }
}

// From the counters in use, whatever their size; admitted keys stay, and others count once.
TEST(CbfFilter, KnowsAboutHowManyKeysItHasCounted) {
  for (const double bits : kBits) {
    for (const int64_t made_for : {1000, 100000}) {
      const auto filter = Make(Cbf(3, static_cast<double>(made_for), 0.01, bits));
      EXPECT_EQ(filter->num_waiting(), 0);
      int64_t next = 0;
      // Up to three times as many as it is made for.
      for (const double part : {0.1, 0.5, 1.0, 3.0}) {
        const auto end = static_cast<int64_t>(part * static_cast<double>(made_for));
        for (int64_t key = next; key < end; ++key) {
          for (int i = 0; i < 4; ++i) (void)filter->Admit(key, 1);
        }
        next = end;
        const auto expected = static_cast<double>(end);
        const double tolerance = 0.05 * expected + 10;
        EXPECT_NEAR(static_cast<double>(filter->num_waiting()), expected, tolerance) << bits;
      }
      filter->Clear();
      EXPECT_EQ(filter->num_waiting(), 0);
    }
  }
  // All of its counters are in use.
  const auto full = Make(Cbf(2, 1, 0.5, 8));
  for (int64_t key = 0; key < 100000; ++key) (void)full->Admit(key, 1);
  EXPECT_GT(full->num_waiting(), 100);
}

// -ln(p) / ln(2)^2 counters an element, with a cache line's rounding a shard.
TEST(CbfFilter, TakesTheMemoryThatItsArgumentsSay) {
  for (const double bits : kBits) {
    const auto filter = Make(Cbf(2, 1000000, 0.01, bits));
    const double expected = std::ceil(std::log(100) / std::pow(std::log(2), 2) * 1e6) * bits / 8;
    EXPECT_NEAR(static_cast<double>(filter->bytes()), expected, 64 * 64 + 4096 + 200);
    for (int64_t key = 0; key < 100000; ++key) (void)filter->Admit(key, 1);
    EXPECT_NEAR(static_cast<double>(filter->bytes()), expected, 64 * 64 + 4096 + 200);
  }
}

TEST(CbfFilter, CountsLessThanOneThatRaisesAllCounters) {
  // Two keys that share a counter, each counted once: the shared one stays at 1.
  const auto filter = Make(Cbf(100, 1, 0.5, 32));
  for (int64_t key = 0; key < 1000; ++key) (void)filter->Admit(key, 1);
  uint64_t sum = 0;
  for (const uint32_t count : Entries(*filter).counts) sum += count;
  EXPECT_LE(sum, 1000u);
}

TEST(CbfFilter, ComesBackFromItsEntriesWhateverTheirPieces) {
  for (const double bits : kBits) {
    const FilterOptions options = Cbf(4, 3000, 0.1, bits);
    const auto filter = Make(options);
    for (const int64_t key : RandomIds(9000, 0, 5000, 1)) (void)filter->Admit(key, 1);
    const FilterEntries all = Entries(*filter);
    for (const int64_t max_entries : {1, 333, 1 << 20}) {
      const FilterEntries entries = Entries(*filter, max_entries);
      const auto copy = Make(options);
      ASSERT_TRUE(IsOk(copy->Restore(entries.keys.data(), entries.counts.data(),
                                     static_cast<int64_t>(entries.keys.size()))));
      EXPECT_EQ(Entries(*copy).counts, all.counts);
      EXPECT_EQ(copy->num_waiting(), filter->num_waiting());
    }
  }
}

TEST(CbfFilter, RefusesWhatItCannotBe) {
  std::unique_ptr<AdmissionFilter> filter;
  const auto refuses = [&](const std::string& words, const FilterOptions& options) {
    EXPECT_TRUE(
        FailsWith(StatusCode::kInvalidArgument, words, AdmissionFilter::Create(options, &filter)));
  };
  for (const double freq : {0.0, 1.5, 256.0, std::nan("")}) {
    refuses("`filter_freq` must be an integer above 0 that fits", Cbf(freq, 10, 0.1, 8));
  }
  refuses("that fits `counter_type`", Cbf(65536, 10, 0.1, 16));
  refuses("that fits `counter_type`", Cbf(4294967296, 10, 0.1, 32));
  for (const double n : {0.0, 0x1p41, std::nan("")}) {
    refuses("`max_element_size` must be in [1, 2^40]", Cbf(2, n, 0.1, 8));
  }
  for (const double p : {0.0, 0.6, 1.0, std::nan("")}) {
    refuses("`false_positive_probability` must be in [2^-64, 0.5]", Cbf(2, 10, p, 8));
  }
  refuses("must have 8, 16, 32 or 64 bits", Cbf(2, 10, 0.1, 24));
  refuses("fewer than 2^38 counters", Cbf(2, 0x1p40, 0x1p-64, 8));
  struct sysinfo machine;
  ASSERT_EQ(sysinfo(&machine), 0);
  const double bytes = static_cast<double>(machine.totalram + machine.totalswap) * machine.mem_unit;
  // 1.44 counters a key.
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted,
                        "the counters of a CBFFilter must fit in memory. Take a smaller",
                        AdmissionFilter::Create(Cbf(2, std::ceil(bytes / 8), 0.5, 64), &filter)));
  // The most hashes there can be.
  const auto many = Make(Cbf(2, 10, 0x1p-64, 8));
  EXPECT_FALSE(many->Admit(1, 1));
  EXPECT_TRUE(many->Admit(1, 1));
}

}  // namespace keras_sparse::cbf_filter_test
