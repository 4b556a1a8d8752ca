#include "ops/core/operations/read_stats.h"

#include "ops/core/stores/instrumented_store.h"
#include "ops/core/table/table_locks.h"

namespace keras_sparse {
namespace {

TierStats StatsOfStore(const InstrumentedStore& store, const StoreCounts& counts) {
  TierStats tier;
  tier.tier = store.tier();
  tier.rows = store.num_rows();
  tier.bytes = store.bytes();
  tier.memory_bytes = store.memory_bytes();
  tier.hits = counts.hits;
  tier.misses = counts.misses;
  tier.promotions = counts.erased_rows;
  tier.demotions = counts.added_rows;
  tier.read_bytes = counts.read_bytes;
  tier.write_bytes = counts.write_bytes;
  tier.compacted_bytes = counts.compacted_bytes;
  tier.busy_ns = counts.busy_ns;
  return tier;
}

}  // namespace

int64_t NumRowsOf(const EmbeddingTable& table) {
  const ReadLocks locks({&table});
  return locks[0].tiers.num_rows();
}

int64_t RecordFloatsOf(const EmbeddingTable& table) {
  const ReadLocks locks({&table});
  return locks[0].layout().record_floats();
}

TableStats StatsOf(const EmbeddingTable& table) {
  const ReadLocks locks({&table});
  const TableState& state = locks[0];
  const TableCounters& counters = state.counters;
  state.tiers.WaitForWrites();
  return {state.tiers.num_rows(),
          state.tiers.bytes() + state.rule().history_bytes() + state.limit.queue.bytes(),
          counters.lookups,
          counters.hits,
          counters.created_rows,
          counters.out_of_range_ids,
          counters.filtered_ids,
          state.gate.num_waiting(),
          state.gate.filter_bytes(),
          *state.tiers.waited_ns(),
          counters.evicted_rows,
          state.tiers.peak_first_tier_bytes()};
}

std::vector<TierStats> TierStatsOf(const EmbeddingTable& table) {
  const ReadLocks locks({&table});
  const TierStack& stack = locks[0].tiers;
  const TableCounters& counters = locks[0].counters;
  stack.WaitForWrites();
  const HbmStore* hbm_store = stack.hbm_store();
  std::vector<TierStats> tiers(1);
  tiers[0].tier = hbm_store == nullptr ? "dram" : hbm_store->tier();
  tiers[0].rows = hbm_store == nullptr ? stack.first_tier().num_rows() : hbm_store->num_rows();
  tiers[0].bytes = stack.first_tier_bytes();
  tiers[0].hits = counters.hits - counters.lower_hits;
  tiers[0].misses = counters.lookups - counters.out_of_range_ids - tiers[0].hits;
  for (size_t i = hbm_store == nullptr ? 0 : 1; i < stack.counted_stores().size(); ++i) {
    const InstrumentedStore* store = stack.counted_stores()[i];
    const StoreCounts counts = store->counts();
    tiers.push_back(StatsOfStore(*store, counts));
    tiers[0].promotions += counts.erased_rows;
    // A row that moved from one lower tier to another was demoted from the first tier once.
    tiers[0].demotions += counts.added_rows - counts.moved_rows;
  }
  return tiers;
}

}  // namespace keras_sparse
