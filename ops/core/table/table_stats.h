// TableStats, TierStats: the contents and counters of a table and its tiers.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_TABLE_STATS_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_TABLE_STATS_H_

#include <atomic>
#include <cstdint>
#include <string>

namespace keras_sparse {

struct TableStats {
  int64_t rows;
  int64_t bytes;             // rows, rule history and eviction queue
  int64_t lookups;           // ids looked up
  int64_t hits;              // looked-up ids that had a row
  int64_t created_rows;      // rows created by gradients
  int64_t out_of_range_ids;  // ids read as zeros
  int64_t filtered_ids;      // dropped gradients of keys that the filter rejected, once a step
  int64_t waiting_keys;      // keys waiting for admission; for a Bloom filter, an estimate of those
                             // counted
  int64_t filter_bytes;      // memory of the filter; not part of `bytes`
  int64_t waited_ns;         // nanoseconds that ops waited for lower tiers
  int64_t evicted_rows;      // rows evicted by a policy
  int64_t peak_first_tier_bytes;  // maximum size of the first tier, including within updates
};

// The contents and counters of one tier. Lower tiers count since the table's rule was set.
struct TierStats {
  std::string tier;             // name, such as "dram"
  int64_t rows = 0;             // rows in the tier
  int64_t bytes = 0;            // all bytes of the tier
  int64_t memory_bytes = 0;     // memory that a tier outside memory uses
  int64_t hits = 0;             // looked-up ids found in it; in a lower tier, keys, once per op
  int64_t misses = 0;           // looked-up ids not found in it
  int64_t promotions = 0;       // rows promoted into the first tier, or out of this lower one
  int64_t demotions = 0;        // rows demoted out of the first tier, or into this lower one
  int64_t read_bytes = 0;       // bytes of records read from a lower tier
  int64_t write_bytes = 0;      // bytes of records written to it
  int64_t compacted_bytes = 0;  // bytes moved by compaction
  int64_t busy_ns = 0;          // nanoseconds spent reading, writing and erasing rows
};

// Counts of one loop over ids.
struct ReadCounts {
  int64_t hits = 0;        // in the first tier
  int64_t lower_hits = 0;  // in lower tiers
  int64_t out_of_range = 0;
};

// Counters for a table's statistics. Thread-safe.
struct TableCounters {
  // Adds the counts of a run of lookups at its end.
  void AddLookups(int64_t num_lookups, const ReadCounts& counts) {
    lookups.fetch_add(num_lookups, std::memory_order_relaxed);
    hits.fetch_add(counts.hits + counts.lower_hits, std::memory_order_relaxed);
    // Most runs count 0, and skip the atomic add.
    if (counts.lower_hits > 0) lower_hits.fetch_add(counts.lower_hits, std::memory_order_relaxed);
    if (counts.out_of_range > 0) {
      out_of_range_ids.fetch_add(counts.out_of_range, std::memory_order_relaxed);
    }
  }

  std::atomic<int64_t> lookups{0};
  std::atomic<int64_t> hits{0};
  std::atomic<int64_t> lower_hits{0};  // hits in lower tiers
  std::atomic<int64_t> out_of_range_ids{0};
  std::atomic<int64_t> created_rows{0};
  std::atomic<int64_t> filtered_ids{0};
  std::atomic<int64_t> evicted_rows{0};
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_TABLE_STATS_H_
