// DenseArrayTier: the first tier of a static table; row i is at position i.
#ifndef KERAS_SPARSE_OPS_CORE_FIRST_TIER_DENSE_ARRAY_TIER_H_
#define KERAS_SPARSE_OPS_CORE_FIRST_TIER_DENSE_ARRAY_TIER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/base/huge_buffer.h"
#include "ops/core/first_tier/first_tier.h"

namespace keras_sparse {

// All rows exist from the start, each with its initial value.
class DenseArrayTier : public FirstTier {
 public:
  static Status Open(int64_t num_rows, const RecordLayout& layout, const Initializer& initializer,
                     Executor* executor, std::unique_ptr<FirstTier>* tier);

  int max_partition_bits() const override { return 6; }
  void PrefetchIndex(const int64_t* /*keys*/, int64_t /*n*/) const override {}
  void Find(const int64_t* keys, int64_t n, float** records) const override;
  Status FindOrCreate(const int64_t* keys, int64_t n, float** records, bool* created) override;
  bool Erase(int64_t /*key*/) override { return false; }
  Status Relayout(const RecordLayout& layout, int64_t step, Executor* executor) override;
  Status Clear(const Initializer& initializer, int64_t step, Executor* executor) override;
  int64_t num_rows() const override { return num_rows_; }
  int64_t bytes() const override {
    return buffer_.bytes() + static_cast<int64_t>(is_changed_.size());
  }
  int64_t Walk(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
               std::vector<const float*>* records) const override;
  void TrackChanges() override;
  bool IsChanged(int64_t key) const override { return is_changed_[static_cast<size_t>(key)] != 0; }
  int64_t WalkChanged(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
                      std::vector<const float*>* records) const override;

 private:
  DenseArrayTier(int64_t num_rows, const RecordLayout& layout)
      : num_rows_(num_rows), layout_(layout) {}

  float* Record(int64_t row) const {
    return reinterpret_cast<float*>(buffer_.data() + row * layout_.record_bytes());
  }

  int64_t num_rows_;
  RecordLayout layout_;
  HugeBuffer buffer_;
  // (num_rows) once changes are tracked. One byte per row, because threads write to neighbouring
  // rows, which belong to different parts.
  std::vector<char> is_changed_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_FIRST_TIER_DENSE_ARRAY_TIER_H_
