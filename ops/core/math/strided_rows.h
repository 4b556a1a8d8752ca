// StridedRows: rows of outputs and of their gradients, anywhere in a tensor.
#ifndef KERAS_SPARSE_OPS_CORE_MATH_STRIDED_ROWS_H_
#define KERAS_SPARSE_OPS_CORE_MATH_STRIDED_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "ops/core/base/host_device.h"
#include "ops/core/math/float_type.h"

namespace keras_sparse {

// Rows of floats, `stride` floats apart: those of a matrix, or some columns of a matrix. `Data` is
// void, or const void for read-only rows.
template <typename Data>
struct StridedRows {
  using Byte = std::conditional_t<std::is_const_v<Data>, const char, char>;
  using Float = std::conditional_t<std::is_const_v<Data>, const float, float>;

  Data* data;
  int64_t stride;  // 0: the rows are contiguous
  FloatType type;

  // Implicit, because a matrix of floats is the usual case.
  // NOLINTNEXTLINE(google-explicit-constructor)
  KERAS_SPARSE_HOST_DEVICE StridedRows(Data* rows = nullptr, int64_t row_stride = 0,
                                       FloatType row_type = {})
      : data(rows), stride(row_stride), type(row_type) {}

  // Returns the same rows, with the stride set for contiguous rows of `dim` floats. The methods
  // below need it.
  KERAS_SPARSE_HOST_DEVICE StridedRows Of(int64_t dim) const {
    return {data, stride > 0 ? stride : dim, type};
  }

  // Returns the rows starting with column `column`, relative to these rows.
  KERAS_SPARSE_HOST_DEVICE StridedRows From(int64_t column) const {
    if (data == nullptr) return *this;  // a tensor without rows
    return {static_cast<Byte*>(data) + column * FloatBytes(type), stride, type};
  }
  KERAS_SPARSE_HOST_DEVICE Data* Row(int64_t i) const {
    return static_cast<Byte*>(data) + i * stride * FloatBytes(type);
  }
  KERAS_SPARSE_HOST_DEVICE bool are_floats() const { return type == FloatType::kFloat32; }
  // REQUIRES: are_floats()
  KERAS_SPARSE_HOST_DEVICE Float* FloatRow(int64_t i) const {
    return static_cast<Float*>(data) + i * stride;
  }
};

using OutputRows = StridedRows<void>;
using GradientRows = StridedRows<const void>;

// Reads rows as float32: in place, or else converted into its own memory until the next row.
class RowsAsFloats {
 public:
  RowsAsFloats(const GradientRows& rows, int64_t dim) : rows_(rows.Of(dim)), dim_(dim) {
    if (!rows_.are_floats()) floats_.resize(static_cast<size_t>(dim));
  }

  const float* Row(int64_t i) {
    if (rows_.are_floats()) return rows_.FloatRow(i);
    ReadFloats(rows_.type, rows_.Row(i), dim_, floats_.data());
    return floats_.data();
  }

 private:
  const GradientRows rows_;
  const int64_t dim_;
  std::vector<float> floats_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_MATH_STRIDED_ROWS_H_
