// AdmissionGate: what keys without a row read as, and which of them may get one.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_ADMISSION_GATE_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_ADMISSION_GATE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "ops/core/admission/admission_filter.h"
#include "ops/core/record/initializer.h"

namespace keras_sparse {

// Thread safety: as that of AdmissionFilter.
class AdmissionGate {
 public:
  // Gives the rows that keys begin with.
  // REQUIRES: SetInitializer was called
  const Initializer& initializer() const { return *initializer_; }
  // Gives what a key without a row reads as.
  const Initializer& default_rows() const {
    return default_rows_ == nullptr ? *initializer_ : *default_rows_;
  }
  void SetInitializer(std::unique_ptr<Initializer> initializer) {
    initializer_ = std::move(initializer);
  }

  // Null if every key may have a row.
  const AdmissionFilter* filter() const { return filter_.get(); }
  AdmissionFilter* filter() { return filter_.get(); }
  // What the filter there may have been remembers is forgotten.
  //   default_rows  null for the initial rows
  void SetFilter(std::unique_ptr<AdmissionFilter> filter,
                 std::unique_ptr<Initializer> default_rows) {
    filter_ = std::move(filter);
    default_rows_ = std::move(default_rows);
  }

  // What follows is that of the filter, or of one that admits every key.
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
