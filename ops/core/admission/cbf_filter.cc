// A counting Bloom filter: admits a key in the training step in which its count reaches
// `filter_freq`, or earlier, in a fixed amount of memory. Counts are of training steps, or of
// occurrences in them.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/core/admission/admission_filter.h"
#include "ops/core/base/cache_line.h"
#include "ops/core/base/hash.h"
#include "ops/core/base/huge_buffer.h"
#include "ops/core/math/prefetch.h"

namespace keras_sparse {
namespace {

constexpr int kMaxFilterShardBits = 6;
// Enough counters for a filter's shards to hold nearly the same number of keys.
constexpr int64_t kLeastShardCounters = 4096;
constexpr int kMaxHashes = 64;
constexpr uint64_t kSecondHash = 0x9E3779B97F4A7C15ULL;

// A key has `num_hashes` counters in its key shard, and its count is their minimum. Only counters
// below the new count are raised, to the new count (conservative update, Estan and Varghese, 2002):
// no count is too low for this, and fewer are too high. The counters depend on the order of keys,
// which is fixed in a shard. An admitted key raises no counter, so none exceeds filter_freq - 1.
//
// Entries are the 32-bit words of the counters' memory by their number.
template <typename Count>
class CountingBloomFilter : public AdmissionFilter {
 public:
  static Status Create(uint64_t filter_freq, bool counts_occurrences, int64_t num_counters,
                       int num_hashes, std::unique_ptr<AdmissionFilter>* filter) {
    std::unique_ptr<CountingBloomFilter> created(new CountingBloomFilter());
    created->filter_freq_ = filter_freq;
    created->counts_occurrences_ = counts_occurrences;
    created->num_hashes_ = num_hashes;
    int bits = 0;
    while (bits < kMaxFilterShardBits && num_counters >> (bits + 1) >= kLeastShardCounters) ++bits;
    created->shard_bits_ = bits;
    // Whole cache lines, to avoid false sharing between threads.
    const auto line = static_cast<int64_t>(kCacheLineBytes / sizeof(Count));
    const int64_t shard_counters = ((num_counters - 1) / (line << bits) + 1) * line;
    if (shard_counters > UINT32_MAX) {
      return InvalidArgument(
          "a CBFFilter must have fewer than 2^38 counters. Take a smaller `max_element_size` or a "
          "larger `false_positive_probability`. Received: " +
          std::to_string(num_counters) + " counters");
    }
    created->shard_counters_ = static_cast<uint32_t>(shard_counters);
    created->used_.resize(size_t{1} << bits);
    const Status allocated = HugeBuffer::Allocate(
        (shard_counters << bits) * static_cast<int64_t>(sizeof(Count)), &created->memory_);
    if (!allocated.ok()) {
      return Status(allocated.code(),
                    "the counters of a CBFFilter must fit in memory. Take a smaller "
                    "`max_element_size` or `counter_type`, or a larger "
                    "`false_positive_probability`. Received: " +
                        std::to_string(num_counters) + " counters of " +
                        std::to_string(sizeof(Count)) + " bytes: " + allocated.message());
    }
    *filter = std::move(created);
    return Status::Ok();
  }

  int max_partition_bits() const override { return shard_bits_; }

  void Prefetch(int64_t key) const override {
    ForEachCounter(key, [](const Count* counter) { PrefetchLine(counter); });
  }

  bool counts_occurrences() const override { return counts_occurrences_; }
  bool keys_share_counts() const override { return true; }

  bool WouldAdmit(int64_t key, uint32_t num_occurrences) const override {
    Count least = std::numeric_limits<Count>::max();
    ForEachCounter(key, [&](const Count* counter) { least = std::min(least, *counter); });
    return least + uint64_t{num_occurrences} >= filter_freq_;
  }

  bool Admit(int64_t key, uint32_t num_occurrences) override {
    if (WouldAdmit(key, num_occurrences)) return true;
    CountWaiting(key, num_occurrences);
    return false;
  }

  void CountWaiting(int64_t key, uint32_t num_occurrences) override {
    std::array<Count*, kMaxHashes> counters;
    size_t n = 0;
    Count least = std::numeric_limits<Count>::max();
    ForEachCounter(key, [&](Count* counter) {
      counters[n++] = counter;
      least = std::min(least, *counter);
    });
    // Other keys of the step may have raised these counters since WouldAdmit.
    const auto raised =
        static_cast<Count>(std::min(least + uint64_t{num_occurrences}, filter_freq_ - 1));
    int64_t num_new = 0;
    for (size_t i = 0; i < n; ++i) {
      num_new += *counters[i] == 0 && raised > 0 ? 1 : 0;
      *counters[i] = std::max(*counters[i], raised);
    }
    if (num_new > 0) used_[TopBits(HashKey(key), shard_bits_)].counters += num_new;
  }

  void Clear() override {
    memory_.Discard(0, memory_.bytes());
    std::fill(used_.begin(), used_.end(), Used());
  }

  // Estimates how many keys would leave as many counters at 0 (Swamidass and Baldi, 2007).
  int64_t num_waiting() const override {
    double used = 0;
    for (const Used& shard : used_) used += static_cast<double>(shard.counters);
    const double all = static_cast<double>(used_.size()) * shard_counters_;
    const double unused_share = std::max(all - used, 0.5) / all;  // avoids log(0)
    return std::llround(-std::log(unused_share) * all / num_hashes_);
  }
  int64_t bytes() const override {
    return static_cast<int64_t>(sizeof(*this) + used_.size() * sizeof(Used)) + memory_.bytes();
  }

  void Walk(int64_t cursor, int64_t max_entries, FilterEntries* entries) const override {
    int64_t at = cursor;
    while (at < num_words() && Word(at) == 0) ++at;  // skips counters at 0
    const int64_t end = std::min(num_words(), at + std::max<int64_t>(1, max_entries));
    for (; at < end; ++at) {
      entries->keys.push_back(at);
      entries->counts.push_back(Word(at));
    }
    entries->next_cursor = at < num_words() ? at : -1;
  }

  Status Restore(const int64_t* keys, const uint32_t* counts, int64_t n) override {
    for (int64_t i = 0; i < n; ++i) {
      if (keys[i] < 0 || keys[i] >= num_words()) {
        return InvalidArgument("keys of what this CBFFilter remembers must be in [0, " +
                               std::to_string(num_words()) + "). Received: keys[" +
                               std::to_string(i) + "] = " + std::to_string(keys[i]));
      }
      const int64_t used_before = NumUsedOfWord(keys[i]);
      std::memcpy(memory_.data() + 4 * keys[i], counts + i, 4);
      const int64_t shard = FirstOfWord(keys[i]) / shard_counters_;
      used_[static_cast<size_t>(shard)].counters += NumUsedOfWord(keys[i]) - used_before;
    }
    return Status::Ok();
  }

 private:
  // The counters of a key shard, on their own cache line, because different threads write.
  struct alignas(kCacheLineBytes) Used {
    int64_t counters = 0;  // number of counters above 0
  };

  CountingBloomFilter() = default;

  // Double hashing with an increasing stride (Dillinger and Manolios, 2004).
  template <typename Use>
  void ForEachCounter(int64_t key, const Use& use) const {
    const uint64_t hash = HashKey(key);
    Count* counters = reinterpret_cast<Count*>(memory_.data()) +
                      static_cast<size_t>(TopBits(hash, shard_bits_)) * shard_counters_;
    const uint64_t second = HashKey(static_cast<int64_t>(hash ^ kSecondHash));
    auto at = static_cast<uint32_t>(second);
    auto stride = static_cast<uint32_t>(second >> 32);
    for (int i = 0; i < num_hashes_; ++i) {
      use(counters + ReduceHash(at, shard_counters_));
      at += stride;
      stride += static_cast<uint32_t>(i);
    }
  }

  // Number of words of all counters; the memory itself is whole pages, whose size depends on the
  // machine.
  int64_t num_words() const {
    return (static_cast<int64_t>(shard_counters_) << shard_bits_) *
           static_cast<int64_t>(sizeof(Count)) / 4;
  }
  uint32_t Word(int64_t at) const {
    uint32_t word;
    std::memcpy(&word, memory_.data() + 4 * at, 4);
    return word;
  }

  // A word is part of one counter, or has up to four.
  static int64_t FirstOfWord(int64_t at) { return 4 * at / static_cast<int64_t>(sizeof(Count)); }
  int64_t NumUsedOfWord(int64_t at) const {
    const Count* first = reinterpret_cast<const Count*>(memory_.data()) + FirstOfWord(at);
    const Count* end = first + std::max<size_t>(1, 4 / sizeof(Count));
    return std::count_if(first, end, [](Count count) { return count > 0; });
  }

  uint64_t filter_freq_ = 1;
  bool counts_occurrences_ = false;
  int num_hashes_ = 1;
  int shard_bits_ = 0;
  uint32_t shard_counters_ = 0;
  HugeBuffer memory_;       // (shards, shard_counters_)
  std::vector<Used> used_;  // (shards,)
};

template <typename Count>
Status CreateFor(double filter_freq, bool counts_occurrences, int64_t num_counters, int num_hashes,
                 std::unique_ptr<AdmissionFilter>* filter) {
  // Above 2^53 a double is not an exact frequency, and no table makes as many steps.
  const double most = std::min(static_cast<double>(std::numeric_limits<Count>::max()), 0x1p53);
  if (!(filter_freq >= 1 && filter_freq <= most) || filter_freq != std::floor(filter_freq)) {
    return InvalidArgument(
        "`filter_freq` must be an integer above 0 that fits `counter_type`. Received: "
        "filter_freq=" +
        std::to_string(filter_freq) + " with counters of " + std::to_string(sizeof(Count)) +
        " bytes");
  }
  return CountingBloomFilter<Count>::Create(static_cast<uint64_t>(filter_freq), counts_occurrences,
                                            num_counters, num_hashes, filter);
}

Status CreateCbfFilter(const FilterOptions& options, std::unique_ptr<AdmissionFilter>* filter) {
  const double filter_freq = options.constants.at("filter_freq");
  const double num_elements = options.constants.at("max_element_size");
  const double probability = options.constants.at("false_positive_probability");
  const double counter_bits = options.constants.at("counter_bits");
  const bool counts_occurrences = options.constants.at("counts_occurrences") != 0;
  if (!(num_elements >= 1 && num_elements <= 0x1p40)) {
    return InvalidArgument("`max_element_size` must be in [1, 2^40]. Received: max_element_size=" +
                           std::to_string(num_elements));
  }
  // With fewer counters than keys the formulas below are invalid.
  if (!(probability >= 0x1p-64 && probability <= 0.5)) {
    return InvalidArgument(
        "`false_positive_probability` must be in [2^-64, 0.5]. Received: "
        "false_positive_probability=" +
        std::to_string(probability));
  }
  const double ln2 = std::log(2.0);
  const auto num_counters =
      static_cast<int64_t>(std::ceil(-std::log(probability) / (ln2 * ln2) * num_elements));
  const int num_hashes = static_cast<int>(std::ceil(-std::log2(probability)));
  const auto create = [&](auto count) {
    return CreateFor<decltype(count)>(filter_freq, counts_occurrences, num_counters, num_hashes,
                                      filter);
  };
  if (counter_bits == 8) return create(uint8_t{});
  if (counter_bits == 16) return create(uint16_t{});
  if (counter_bits == 32) return create(uint32_t{});
  if (counter_bits == 64) return create(uint64_t{});
  return InvalidArgument("`counter_type` must have 8, 16, 32 or 64 bits. Received: " +
                         std::to_string(counter_bits));
}

const bool kRegistered =
    AdmissionFilter::Register("cbf",
                              {"filter_freq", "counts_occurrences", "max_element_size",
                               "false_positive_probability", "counter_bits"},
                              CreateCbfFilter);

}  // namespace
}  // namespace keras_sparse
