// PrefixSums: sums of a number over any run of steps.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_PREFIX_SUMS_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_PREFIX_SUMS_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/host_device.h"

namespace keras_sparse {

class PrefixSums {
 public:
  // The sums as loops and kernels read them. Valid until the PrefixSums changes.
  struct View {
    const double* sums = nullptr;  // (size) of the first i steps that are not forgotten
    int64_t size = 0;
    int64_t forgotten = 0;

    // Returns the sum over the steps after `from` up to `to`.
    // REQUIRES: no step after `from` is forgotten
    KERAS_SPARSE_HOST_DEVICE double Between(int64_t from, int64_t to) const {
      return sums[to - forgotten] - sums[from - forgotten];
    }
  };
  View view() const { return {sums_.data(), static_cast<int64_t>(sums_.size()), forgotten_}; }

  void Append(double number) { sums_.push_back(sums_.back() + number); }
  double Between(int64_t from, int64_t to) const { return view().Between(from, to); }

  // Numbers the next steps after `step`.
  // REQUIRES: no step was appended
  void StartAt(int64_t step) { forgotten_ = step; }

  // Forgets the steps so far; they keep their numbers.
  void Forget() {
    forgotten_ += static_cast<int64_t>(sums_.size()) - 1;
    sums_ = std::vector<double>(1);  // frees the memory
  }
  int64_t bytes() const { return static_cast<int64_t>(sums_.capacity() * sizeof(double)); }

 private:
  int64_t forgotten_ = 0;
  std::vector<double> sums_ = {0};
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_PREFIX_SUMS_H_
