#include "ops/core/base/environment_variable.h"

#include <cstdlib>
#include <string>

namespace keras_sparse {

Status ReadEnvironment(const char* variable, int most, int usual, int* value) {
  *value = usual;
  const char* set = std::getenv(variable);
  const std::string text = set == nullptr ? "" : set;
  if (text.empty()) return Status::Ok();
  if (text.size() <= 2 && text.find_first_not_of("0123456789") == std::string::npos) {
    *value = std::stoi(text);
    if (*value <= most) return Status::Ok();
  }
  return InvalidArgument("the environment variable " + std::string(variable) +
                         " must be a whole number from 0 to " + std::to_string(most) +
                         ". Received: '" + text + "'");
}

}  // namespace keras_sparse
