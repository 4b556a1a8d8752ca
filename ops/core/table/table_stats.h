// What is in a table and its tiers, and what they have done.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_TABLE_STATS_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_TABLE_STATS_H_

#include <atomic>
#include <cstdint>
#include <string>

namespace keras_sparse {

struct TableStats {
  int64_t rows;
  int64_t bytes;             // of rows, what their rule remembers, and what goes first
  int64_t lookups;           // ids looked up
  int64_t hits;              // of these, ids that had a row
  int64_t created_rows;      // rows that a gradient created
  int64_t out_of_range_ids;  // ids read as zeros
  int64_t filtered_ids;  // gradients dropped: of keys that the filter did not admit, once a step
  int64_t waiting_keys;  // keys that wait; of a Bloom filter about how many it has counted
  int64_t filter_bytes;  // of the filter; not among `bytes`
  int64_t waited_ns;     // nanoseconds that ops have waited for lower tiers
  int64_t evicted_rows;  // rows that a policy has let go
  int64_t peak_first_tier_bytes;  // the most that the first tier has held, also within an update
};

// What is in one tier, and what it has done: the lower ones since the table was given its rule.
struct TierStats {
  std::string tier;             // its name, such as "dram"
  int64_t rows = 0;             // in it
  int64_t bytes = 0;            // of everything there
  int64_t memory_bytes = 0;     // of memory for what lies in a tier beyond memory
  int64_t hits = 0;             // ids looked up in it that it had; in a lower tier keys, once an op
  int64_t misses = 0;           // that it had not
  int64_t promotions = 0;       // rows that came up to the first tier: into it, or out of this one
  int64_t demotions = 0;        // rows that went down: out of the first tier, or into this one
  int64_t read_bytes = 0;       // of records read from a lower tier
  int64_t write_bytes = 0;      // and written to it
  int64_t compacted_bytes = 0;  // that compaction has moved
  int64_t busy_ns = 0;  // nanoseconds that reading, putting and erasing rows there have taken
};

// What a loop over ids has seen.
struct ReadCounts {
  int64_t hits = 0;        // in the first tier
  int64_t lower_hits = 0;  // below it
  int64_t out_of_range = 0;
};

// What is counted of a table for its statistics. Thread-safe.
struct TableCounters {
  // A run of lookups, counted at its end.
  void AddLookups(int64_t num_lookups, const ReadCounts& counts) {
    lookups.fetch_add(num_lookups, std::memory_order_relaxed);
    hits.fetch_add(counts.hits + counts.lower_hits, std::memory_order_relaxed);
    // Most runs have none.
    if (counts.lower_hits > 0) lower_hits.fetch_add(counts.lower_hits, std::memory_order_relaxed);
    if (counts.out_of_range > 0) {
      out_of_range_ids.fetch_add(counts.out_of_range, std::memory_order_relaxed);
    }
  }

  std::atomic<int64_t> lookups{0};
  std::atomic<int64_t> hits{0};
  std::atomic<int64_t> lower_hits{0};  // of these, in lower tiers
  std::atomic<int64_t> out_of_range_ids{0};
  std::atomic<int64_t> created_rows{0};
  std::atomic<int64_t> filtered_ids{0};
  std::atomic<int64_t> evicted_rows{0};
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_TABLE_STATS_H_
