#include "ops/core/exchange/wire_dtype.h"

#include <cstring>

namespace keras_sparse {

Status ParseFloatType(const std::string& name, const std::string& argument, FloatType* type) {
  if (name == "float32") {
    *type = FloatType::kFloat32;
  } else if (name == "float16") {
    *type = FloatType::kFloat16;
  } else if (name == "bfloat16") {
    *type = FloatType::kBFloat16;
  } else {
    return InvalidArgument("`" + argument +
                           "` must be one of ('float32', 'float16', 'bfloat16'). Received: " +
                           argument + "='" + name + "'");
  }
  return Status::Ok();
}

int64_t FloatWords(FloatType type, int64_t n) {
  return type == FloatType::kFloat32 ? n : (n + 1) / 2;
}

void EncodeFloats(FloatType type, const float* floats, int64_t n, Word* words) {
  WriteFloats(type, floats, n, words);
  const bool is_odd = type != FloatType::kFloat32 && n % 2 != 0;
  if (is_odd) std::memset(reinterpret_cast<char*>(words) + 2 * n, 0, 2);
}

void DecodeFloats(FloatType type, const Word* words, int64_t n, float* floats) {
  ReadFloats(type, words, n, floats);
}

}  // namespace keras_sparse
