// Floats as ranks send them: as they are, or in half as many bytes.
#ifndef KERAS_SPARSE_OPS_CORE_EXCHANGE_WIRE_FLOATS_H_
#define KERAS_SPARSE_OPS_CORE_EXCHANGE_WIRE_FLOATS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "ops/core/base/status.h"
#include "ops/core/exchange/wire.h"

namespace keras_sparse {

// Two of the smaller ones share a word; rounded to the nearest, ties to even. A float beyond the
// range of kFloat16 becomes infinite, as TensorFlow's cast makes it; NaN stays NaN.
enum class WireType { kFloat32, kFloat16, kBFloat16 };

// "float32", "float16" or "bfloat16".
Status ParseWireType(const std::string& name, WireType* type);

// Words of n floats.
int64_t FloatWords(WireType type, int64_t n);

//   floats  (n)    words  (FloatWords(type, n))
void EncodeFloats(WireType type, const float* floats, int64_t n, Word* words);
void DecodeFloats(WireType type, const Word* words, int64_t n, float* floats);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_EXCHANGE_WIRE_FLOATS_H_
