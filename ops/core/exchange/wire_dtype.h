// Floats as ranks send them: as they are, or in half as many bytes.
#ifndef KERAS_SPARSE_OPS_CORE_EXCHANGE_WIRE_DTYPE_H_
#define KERAS_SPARSE_OPS_CORE_EXCHANGE_WIRE_DTYPE_H_

#include <cstdint>
#include <string>

#include "ops/core/base/status.h"
#include "ops/core/exchange/message_format.h"
#include "ops/core/math/float_type.h"

namespace keras_sparse {

// "float32", "float16" or "bfloat16".
Status ParseWireType(const std::string& name, FloatType* type);

// Words of n floats: two of the smaller ones share one.
int64_t FloatWords(FloatType type, int64_t n);

//   floats  (n)    words  (FloatWords(type, n))
void EncodeFloats(FloatType type, const float* floats, int64_t n, Word* words);
void DecodeFloats(FloatType type, const Word* words, int64_t n, float* floats);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_EXCHANGE_WIRE_DTYPE_H_
