// Numbers that a user sets in the environment.
#ifndef KERAS_SPARSE_OPS_CORE_BASE_ENVIRONMENT_VARIABLE_H_
#define KERAS_SPARSE_OPS_CORE_BASE_ENVIRONMENT_VARIABLE_H_

#include "ops/core/base/status.h"

namespace keras_sparse {

// Reads an environment variable; `usual` if it is not set, or empty. Returns InvalidArgument unless
// it is a whole number from 0 to `most`, which is below 100.
Status ReadEnvironment(const char* variable, int most, int usual, int* value);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_BASE_ENVIRONMENT_VARIABLE_H_
