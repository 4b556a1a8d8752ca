// Sums of a number over any run of steps.
#ifndef KERAS_SPARSE_OPS_CORE_STEP_SUMS_H_
#define KERAS_SPARSE_OPS_CORE_STEP_SUMS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace keras_sparse {

class StepSums {
 public:
  void Append(double number) { sums_.push_back(sums_.back() + number); }
  // Over the steps after `from` up to `to`.
  double Between(int64_t from, int64_t to) const {
    return sums_[static_cast<size_t>(to)] - sums_[static_cast<size_t>(from)];
  }

 private:
  std::vector<double> sums_ = {0};  // of the first i steps
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STEP_SUMS_H_
