// AdmissionGate: the values of keys without a row, and the filter that admits keys.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_ADMISSION_GATE_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_ADMISSION_GATE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "ops/core/admission/admission_filter.h"
#include "ops/core/record/initializer.h"

namespace keras_sparse {

// Thread safety: the same as AdmissionFilter's.
class AdmissionGate {
 public:
  // Returns the initializer of new rows.
  // REQUIRES: SetInitializer was called
  const Initializer& initializer() const { return *initializer_; }
  // Returns the values that a lookup reads for a key without a row.
  const Initializer& default_rows() const {
    return default_rows_ == nullptr ? *initializer_ : *default_rows_;
  }
  void SetInitializer(std::unique_ptr<Initializer> initializer) {
    initializer_ = std::move(initializer);
  }

  // Null if every key may have a row.
  const AdmissionFilter* filter() const { return filter_.get(); }
  AdmissionFilter* filter() { return filter_.get(); }
  // Replaces the filter; the state of the previous one is dropped.
  //   default_rows  null for the initial rows
  void SetFilter(std::unique_ptr<AdmissionFilter> filter,
                 std::unique_ptr<Initializer> default_rows) {
    filter_ = std::move(filter);
    default_rows_ = std::move(default_rows);
  }

  // These methods forward to the filter. Without a filter, every key is admitted.
  int max_partition_bits(int most) const {
    return filter_ == nullptr ? most : std::min(most, filter_->max_partition_bits());
  }
  bool counts_occurrences() const { return filter_ != nullptr && filter_->counts_occurrences(); }
  int64_t num_waiting() const { return filter_ == nullptr ? 0 : filter_->num_waiting(); }
  int64_t filter_bytes() const { return filter_ == nullptr ? 0 : filter_->bytes(); }
  bool WouldAdmit(int64_t key, uint32_t num_occurrences) const {
    return filter_ == nullptr || filter_->WouldAdmit(key, num_occurrences);
  }
  void BeginStep() {
    if (filter_ != nullptr) filter_->BeginStep();
  }
  void Forget(int64_t key) {
    if (filter_ != nullptr) filter_->Forget(key);
  }
  void Clear() {
    if (filter_ != nullptr) filter_->Clear();
  }

 private:
  std::unique_ptr<Initializer> initializer_;
  std::unique_ptr<Initializer> default_rows_;
  std::unique_ptr<AdmissionFilter> filter_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_ADMISSION_GATE_H_
