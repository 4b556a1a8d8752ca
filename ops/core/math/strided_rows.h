// Rows of outputs and of their gradients, wherever they lie in a tensor.
#ifndef KERAS_SPARSE_OPS_CORE_MATH_STRIDED_ROWS_H_
#define KERAS_SPARSE_OPS_CORE_MATH_STRIDED_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "ops/core/base/host_device.h"
#include "ops/core/math/float_type.h"

namespace keras_sparse {

// Rows of floats, `stride` of them apart: those of a matrix, or some columns of one.
// `Data` is void, or const void where rows are only read.
template <typename Data>
struct StridedRows {
  using Byte = std::conditional_t<std::is_const_v<Data>, const char, char>;
  using Float = std::conditional_t<std::is_const_v<Data>, const float, float>;

  Data* data;
  int64_t stride;  // 0: that of rows with nothing between them
  FloatType type;

  // Implicit: a matrix of floats is the usual case.
  // NOLINTNEXTLINE(google-explicit-constructor)
  KERAS_SPARSE_HOST_DEVICE StridedRows(Data* rows = nullptr, int64_t row_stride = 0,
                                       FloatType row_type = {})
      : data(rows), stride(row_stride), type(row_type) {}

  // The same, whose stride is known where rows are of `dim` floats. What follows needs it.
  KERAS_SPARSE_HOST_DEVICE StridedRows Of(int64_t dim) const {
    return {data, stride > 0 ? stride : dim, type};
  }

  // From column `column` on, counted from where these rows begin.
  KERAS_SPARSE_HOST_DEVICE StridedRows From(int64_t column) const {
    if (data == nullptr) return *this;  // a tensor of no rows
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

// Reads rows as floats: where they lie, or else in memory of its own until the next one.
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
