// Floats as ranks send them: in float32, or in half as many bytes.
#ifndef KERAS_SPARSE_OPS_CORE_EXCHANGE_WIRE_DTYPE_H_
#define KERAS_SPARSE_OPS_CORE_EXCHANGE_WIRE_DTYPE_H_

#include <cstdint>
#include <string>

#include "ops/core/base/status.h"
#include "ops/core/exchange/message_format.h"
#include "ops/core/math/float_type.h"

namespace keras_sparse {

// `name` is "float32", "float16" or "bfloat16"; `argument` names it in the error for another one.
Status ParseFloatType(const std::string& name, const std::string& argument, FloatType* type);

// Returns the words of n floats: two 16-bit floats share a word.
int64_t FloatWords(FloatType type, int64_t n);

//   floats  (n)
//   words   (FloatWords(type, n))
void EncodeFloats(FloatType type, const float* floats, int64_t n, Word* words);
void DecodeFloats(FloatType type, const Word* words, int64_t n, float* floats);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_EXCHANGE_WIRE_DTYPE_H_
