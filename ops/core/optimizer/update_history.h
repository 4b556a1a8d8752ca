// UpdateHistory: the numbers of a rule in past steps.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_UPDATE_HISTORY_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_UPDATE_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace keras_sparse {

// Runs of steps with the same numbers, in order. A constant rate needs no memory.
class UpdateHistory {
 public:
  // REQUIRES: the same number of numbers at every step, at least one
  void Append(const std::vector<float>& numbers) {
    ++num_steps_;
    // Compares bits, so that signed zeros and NaNs are preserved.
    const size_t bytes = numbers.size() * sizeof(float);
    if (!run_lengths_.empty() && std::memcmp(numbers_.data() + numbers_.size() - numbers.size(),
                                             numbers.data(), bytes) == 0) {
      ++run_lengths_.back();
      return;
    }
    run_lengths_.push_back(1);
    numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
  }

  // In all runs.
  int64_t num_steps() const { return num_steps_; }
  const std::vector<int64_t>& run_lengths() const { return run_lengths_; }  // (r)
  const std::vector<float>& numbers() const { return numbers_; }            // (r, num_numbers)

  // Forgets the steps so far, and frees their memory.
  void Forget() { *this = UpdateHistory(); }
  int64_t bytes() const {
    return static_cast<int64_t>(run_lengths_.capacity() * sizeof(int64_t) +
                                numbers_.capacity() * sizeof(float));
  }

 private:
  int64_t num_steps_ = 0;
  std::vector<int64_t> run_lengths_;
  std::vector<float> numbers_;
};

// Everything that a rule needs to replay the steps that it remembers: see SavedRule.
struct RuleHistory {
  int64_t first_step = 0;  // the steps after this one ...
  int64_t step = 0;        // ... up to this one
  int64_t num_numbers = 0;
  std::vector<int64_t> run_lengths;  // (r)
  std::vector<float> numbers;        // (r, num_numbers)
  uint32_t table_step = 0;           // the table's own clock, for the ages of rows
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_UPDATE_HISTORY_H_
