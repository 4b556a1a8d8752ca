// Admits a key with the same probability in each training step, and stores nothing about keys.
#include <algorithm>
#include <array>

#include "ops/core/admission/admission_filter.h"
#include "ops/core/math/philox.h"

namespace keras_sparse {
namespace {

// Separates these draws from those of an initial row, which may have the same seed.
constexpr uint32_t kSalt = 0x41646D69;
// Any partition works, because keys are independent.
constexpr int kProbabilityBits = 30;

// Entries 0 to 3 are the low and high words of the step count and of the seed.
class ProbabilityFilter : public AdmissionFilter {
 public:
  ProbabilityFilter(double probability, int64_t seed)
      : probability_(probability), seed_(static_cast<uint64_t>(seed)) {}

  int max_partition_bits() const override { return kProbabilityBits; }
  void BeginStep() override { ++step_; }

  bool WouldAdmit(int64_t key, uint32_t /*num_occurrences*/) const override {
    return Draws(key, step_ + 1);
  }
  bool Admit(int64_t key, uint32_t /*num_occurrences*/) override { return Draws(key, step_); }

  void Clear() override { step_ = 0; }
  int64_t bytes() const override { return sizeof(*this); }

  void Walk(int64_t cursor, int64_t max_entries, FilterEntries* entries) const override {
    const std::array<uint32_t, 4> words = {Low(step_), High(step_), Low(seed_), High(seed_)};
    const int64_t end = std::min<int64_t>(4, cursor + std::max<int64_t>(1, max_entries));
    for (int64_t i = cursor; i < end; ++i) {
      entries->keys.push_back(i);
      entries->counts.push_back(words[static_cast<size_t>(i)]);
    }
    entries->next_cursor = end < 4 ? end : -1;
  }

  Status Restore(const int64_t* keys, const uint32_t* counts, int64_t n) override {
    for (int64_t i = 0; i < n; ++i) {
      if (keys[i] < 0 || keys[i] > 3) {
        return InvalidArgument(
            "keys of what a ProbabilityFilter remembers must be in [0, 4). Received: keys[" +
            std::to_string(i) + "] = " + std::to_string(keys[i]));
      }
      uint64_t* word = keys[i] < 2 ? &step_ : &seed_;
      const int shift = keys[i] % 2 == 0 ? 0 : 32;
      *word &= ~(uint64_t{UINT32_MAX} << shift);
      *word |= uint64_t{counts[i]} << shift;
    }
    return Status::Ok();
  }

 private:
  // A pure function of seed, key and step.
  bool Draws(int64_t key, uint64_t step) const {
    const auto bits = static_cast<uint64_t>(key);
    const PhiloxWords random =
        Philox({Low(step), High(step), Low(bits), High(bits)}, {Low(seed_), High(seed_) ^ kSalt});
    // 53 bits, in [0, 1).
    const uint64_t draw = (static_cast<uint64_t>(random.words[0]) << 21) | (random.words[1] >> 11);
    return static_cast<double>(draw) * 0x1p-53 < probability_;
  }

  static uint32_t Low(uint64_t word) { return static_cast<uint32_t>(word); }
  static uint32_t High(uint64_t word) { return static_cast<uint32_t>(word >> 32); }

  double probability_;
  uint64_t seed_;
  uint64_t step_ = 0;
};

Status CreateProbabilityFilter(const FilterOptions& options,
                               std::unique_ptr<AdmissionFilter>* filter) {
  const double probability = options.constants.at("probability");
  if (!(probability > 0 && probability <= 1)) {
    return InvalidArgument("`p` must be above 0 and at most 1. Received: p=" +
                           std::to_string(probability));
  }
  *filter = std::make_unique<ProbabilityFilter>(probability, options.seed);
  return Status::Ok();
}

const bool kRegistered =
    AdmissionFilter::Register("probability", {"probability"}, CreateProbabilityFilter);

}  // namespace
}  // namespace keras_sparse
