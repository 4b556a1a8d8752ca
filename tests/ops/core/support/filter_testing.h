// Filters and filtered tables in one line.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_FILTER_TESTING_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_FILTER_TESTING_H_

#include "ops/core/admission/admission_filter.h"
#include "ops/core/operations/set_filter.h"
#include "tests/ops/core/support/table_testing.h"

namespace keras_sparse {

inline FilterOptions Counter(double filter_freq, bool counts_occurrences = false) {
  FilterOptions options;
  options.filter = "counter";
  options.constants = {{"filter_freq", filter_freq},
                       {"counts_occurrences", counts_occurrences ? 1.0 : 0.0}};
  return options;
}

inline FilterOptions Probability(double p, int64_t seed = 1) {
  FilterOptions options;
  options.filter = "probability";
  options.constants = {{"probability", p}};
  options.seed = seed;
  return options;
}

inline FilterOptions Cbf(double filter_freq, double max_element_size, double probability,
                         double counter_bits, bool counts_occurrences = false) {
  FilterOptions options;
  options.filter = "cbf";
  options.constants = {{"filter_freq", filter_freq},
                       {"counts_occurrences", counts_occurrences ? 1.0 : 0.0},
                       {"max_element_size", max_element_size},
                       {"false_positive_probability", probability},
                       {"counter_bits", counter_bits}};
  return options;
}

inline std::unique_ptr<AdmissionFilter> Make(const FilterOptions& options) {
  std::unique_ptr<AdmissionFilter> filter;
  EXPECT_TRUE(IsOk(AdmissionFilter::Create(options, &filter)));
  return filter;
}

// Of a filter that admits a key at its fifth occurrence.
inline void ExpectCountsOfFiveOccurrences(AdmissionFilter* filter) {
  EXPECT_TRUE(filter->counts_occurrences());
  EXPECT_FALSE(filter->Admit(1, 3));
  EXPECT_FALSE(filter->WouldAdmit(1, 1));
  EXPECT_TRUE(filter->WouldAdmit(1, 2));
  EXPECT_FALSE(filter->Admit(1, 1));
  EXPECT_TRUE(filter->Admit(1, UINT32_MAX));
  EXPECT_TRUE(filter->Admit(2, 5));
}

// All entries, in pieces that walk(cursor, &piece) gives.
template <typename Walk>
FilterEntries AllEntries(const Walk& walk) {
  FilterEntries all;
  for (int64_t cursor = 0; cursor >= 0;) {
    FilterEntries piece;
    walk(cursor, &piece);
    EXPECT_EQ(piece.keys.size(), piece.counts.size());
    all.keys.insert(all.keys.end(), piece.keys.begin(), piece.keys.end());
    all.counts.insert(all.counts.end(), piece.counts.begin(), piece.counts.end());
    cursor = piece.next_cursor;
  }
  return all;
}
inline FilterEntries Entries(const AdmissionFilter& filter, int64_t max_entries = 1000) {
  return AllEntries(
      [&](int64_t cursor, FilterEntries* piece) { filter.Walk(cursor, max_entries, piece); });
}

inline std::map<int64_t, uint32_t> ByKey(const FilterEntries& entries) {
  std::map<int64_t, uint32_t> by_key;
  for (size_t i = 0; i < entries.keys.size(); ++i) {
    EXPECT_TRUE(by_key.emplace(entries.keys[i], entries.counts[i]).second);
  }
  return by_key;
}

// What a table's filter remembers.
inline std::map<int64_t, uint32_t> Remembered(const EmbeddingTable& table,
                                              int64_t max_entries = 1000) {
  return ByKey(AllEntries([&](int64_t cursor, FilterEntries* piece) {
    EXPECT_TRUE(IsOk(ExportFilter(table, cursor, max_entries, piece)));
  }));
}

inline std::unique_ptr<EmbeddingTable> OpenFiltered(const TableOptions& options,
                                                    const RuleOptions& rule,
                                                    const FilterOptions& filter) {
  auto table = OpenWithRule(options, rule);
  EXPECT_TRUE(IsOk(SetFilter(table.get(), filter)));
  return table;
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_FILTER_TESTING_H_
