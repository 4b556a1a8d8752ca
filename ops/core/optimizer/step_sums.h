// Sums of a number over any run of steps.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_STEP_SUMS_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_STEP_SUMS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace keras_sparse {

class StepSums {
 public:
  void Append(double number) { sums_.push_back(sums_.back() + number); }
  // Over the steps after `from` up to `to`.
  // REQUIRES: no step after `from` is forgotten
  double Between(int64_t from, int64_t to) const {
    return sums_[static_cast<size_t>(to - forgotten_)] -
           sums_[static_cast<size_t>(from - forgotten_)];
  }

  // Numbers the steps from here on.
  // REQUIRES: no step has been added
  void StartAt(int64_t step) { forgotten_ = step; }

  // Forgets the steps so far; they keep their numbers.
  void Forget() {
    forgotten_ += static_cast<int64_t>(sums_.size()) - 1;
    sums_ = std::vector<double>(1);  // gives the memory back
  }
  int64_t bytes() const { return static_cast<int64_t>(sums_.capacity() * sizeof(double)); }

 private:
  int64_t forgotten_ = 0;
  std::vector<double> sums_ = {0};  // of the first i steps that are not forgotten
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_STEP_SUMS_H_
