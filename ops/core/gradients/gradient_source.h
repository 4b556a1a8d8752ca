// GradientSource: reads the gradients of an op's ids.
#ifndef KERAS_SPARSE_OPS_CORE_GRADIENTS_GRADIENT_SOURCE_H_
#define KERAS_SPARSE_OPS_CORE_GRADIENTS_GRADIENT_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/gradients/output_gradient.h"
#include "ops/core/gradients/sum_gradients.h"
#include "ops/core/math/prefetch.h"
#include "ops/core/math/strided_rows.h"

namespace keras_sparse {

// Sums of gradients by number, which GradientSource::Scatter computes.
struct ScatteredSums {
  std::vector<float> sums;      // (num_sums, dim)
  std::vector<uint8_t> counts;  // (num_sums) of the gradients in each sum, modulo kGradientsPerRun
  std::vector<float> run_sums;  // (runs.size(), dim) of complete runs
  std::vector<std::pair<uint32_t, size_t>> runs;  // the number of each, and where its sum begins

  // Moves the sum of a complete run to `run_sums`.
  __attribute__((noinline, cold)) void EndRun(uint32_t number, int64_t dim);
  // Adds the complete runs to the sums.
  void AddRuns(int64_t dim);
};

// The gradient of the id at position p is coefficients[p] * grads[bag_of[p]]. It is never written
// for each id, which would need hotness times the bytes. Without coefficients an id's name is its
// bag, because nothing else is needed; with coefficients its name is its position.
class GradientSource {
 public:
  // Returns one source per gradient, whose `grads` must outlive it.
  // REQUIRES: gradient.bags.Check() returned OK for each
  static std::vector<GradientSource> Make(const std::vector<OutputGradient>& gradients,
                                          Executor* executor);

  int64_t dim() const { return dim_; }

  // The names of ids (see IdList) that the methods below take.
  const uint32_t* names() const { return counts_once() ? bag_of_.get() : nullptr; }

  // Returns the gradient of an id if it is stored as float32; else null.
  const float* Find(uint32_t name) const {
    return counts_once() && grads_.are_floats() ? grads_.FloatRow(name) : nullptr;
  }

  void Prefetch(uint32_t name) const {
    const int64_t bytes = FloatBytes(grads_.type) * dim_;
    PrefetchBytes(grads_.Row(Bag(name)), BytesToPrefetch(bytes, bytes));
  }

  // Computes the sum of the gradients of these ids; there is at least one.
  //   names  (n)    sum  (dim)
  void Sum(const uint32_t* names, int64_t n, float* sum) const {
    if (n > kGradientsPerRun || !grads_.are_floats()) return SumAny(names, n, sum);
    SumFloats(RowGradients{FloatType::kFloat32, dim_, !counts_once(),
                           [=](int64_t i) { return grads_.FloatRow(Bag(names[i])); },
                           [=](int64_t i) { return coefficients_[names[i]]; }},
              0, n, sum);
  }

  // Computes the sums of the gradients of ids with equal numbers, as Sum does.
  //   names    (n), or null for 0, 1, 2, ...
  //   numbers  (n)
  void Scatter(const uint32_t* names, const uint32_t* numbers, int64_t n, int64_t num_sums,
               ScatteredSums* sums) const;

 private:
  explicit GradientSource(const OutputGradient& gradient);

  // Whether each id counts once in its bag, so that its gradient is the bag's.
  bool counts_once() const { return coefficients_ == nullptr; }
  uint32_t Bag(uint32_t name) const { return counts_once() ? name : bag_of_[name]; }

  // Implements Sum for any number and type.
  void SumAny(const uint32_t* names, int64_t n, float* sum) const;

  // Fills the values of the ids of bags [first_bag, last_bag).
  void FillBags(const Bags& bags, int64_t first_bag, int64_t last_bag);

  GradientRows grads_;  // of bags
  int64_t dim_;
  std::unique_ptr<uint32_t[]> bag_of_;     // (num_ids); null without bags: the id's position
  std::unique_ptr<float[]> coefficients_;  // (num_ids), null if all are 1
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_GRADIENTS_GRADIENT_SOURCE_H_
