// Admits a key in the training step in which its count of training steps, or of occurrences in
// them, reaches `filter_freq`. Counts are exact.
#include <cmath>
#include <vector>

#include "ops/core/admission/admission_filter.h"
#include "ops/core/base/cache_line.h"
#include "ops/core/base/hash.h"
#include "ops/core/index/key_counts.h"

namespace keras_sparse {
namespace {

constexpr int kShardBits = 6;
// A walk's cursor is the shard, from this bit on, and a cursor in the shard.
constexpr int kShardShift = KeyCounts::kCursorBits;

class CounterFilter : public AdmissionFilter {
 public:
  CounterFilter(uint32_t filter_freq, bool counts_occurrences)
      : filter_freq_(filter_freq), counts_occurrences_(counts_occurrences) {
    Clear();
  }

  int max_partition_bits() const override { return kShardBits; }
  void Prefetch(int64_t key) const override {
    const uint64_t hash = HashKey(key);
    shards_[TopBits(hash, kShardBits)].counts.Prefetch(hash);
  }

  bool counts_occurrences() const override { return counts_occurrences_; }

  bool WouldAdmit(int64_t key, uint32_t num_occurrences) const override {
    const uint64_t hash = HashKey(key);
    const uint64_t count = shards_[TopBits(hash, kShardBits)].counts.Get(hash);
    return count + num_occurrences >= filter_freq_;
  }

  bool Admit(int64_t key, uint32_t num_occurrences) override {
    if (filter_freq_ == 1) return true;
    const uint64_t hash = HashKey(key);
    return ShardOf(hash).Add(hash, num_occurrences) >= filter_freq_;
  }

  void Forget(int64_t key) override {
    const uint64_t hash = HashKey(key);
    ShardOf(hash).Erase(hash);
  }

  void Clear() override { shards_.assign(size_t{1} << kShardBits, Shard()); }

  int64_t num_waiting() const override {
    int64_t size = 0;
    for (const Shard& shard : shards_) size += shard.counts.size();
    return size;
  }

  int64_t bytes() const override {
    auto bytes = static_cast<int64_t>(sizeof(*this) + shards_.size() * sizeof(Shard));
    for (const Shard& shard : shards_) bytes += shard.counts.bytes();
    return bytes;
  }

  void Walk(int64_t cursor, int64_t max_entries, FilterEntries* entries) const override {
    auto shard = static_cast<size_t>(cursor >> kShardShift);
    int64_t at = cursor & ((int64_t{1} << kShardShift) - 1);
    while (shard < shards_.size()) {
      const int64_t room = max_entries - static_cast<int64_t>(entries->keys.size());
      // Stops before the last few entries, because each chunk of a shard scans all of it.
      if (room <= max_entries / 8 && !entries->keys.empty()) break;
      at = shards_[shard].counts.Walk(at, room, &entries->keys, &entries->counts);
      if (at >= 0) continue;
      ++shard;
      at = 0;
    }
    entries->next_cursor =
        shard < shards_.size() ? (static_cast<int64_t>(shard) << kShardShift) | at : -1;
  }

  Status Restore(const int64_t* keys, const uint32_t* counts, int64_t n) override {
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t hash = HashKey(keys[i]);
      ShardOf(hash).Set(hash, counts[i]);
    }
    return Status::Ok();
  }

 private:
  // On its own cache line, to avoid false sharing between threads.
  struct alignas(kCacheLineBytes) Shard {
    KeyCounts counts{kShardBits};
  };

  KeyCounts& ShardOf(uint64_t hash) { return shards_[TopBits(hash, kShardBits)].counts; }

  uint32_t filter_freq_;
  bool counts_occurrences_;
  std::vector<Shard> shards_;
};

Status CreateCounterFilter(const FilterOptions& options, std::unique_ptr<AdmissionFilter>* filter) {
  const double filter_freq = options.constants.at("filter_freq");
  if (!(filter_freq >= 1 && filter_freq <= UINT32_MAX) || filter_freq != std::floor(filter_freq)) {
    return InvalidArgument("`filter_freq` must be an integer in [1, 2^32). Received: filter_freq=" +
                           std::to_string(filter_freq));
  }
  *filter = std::make_unique<CounterFilter>(static_cast<uint32_t>(filter_freq),
                                            options.constants.at("counts_occurrences") != 0);
  return Status::Ok();
}

const bool kRegistered = AdmissionFilter::Register("counter", {"filter_freq", "counts_occurrences"},
                                                   CreateCounterFilter);

}  // namespace
}  // namespace keras_sparse
