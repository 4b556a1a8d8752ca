// The prefix of all native error messages of this process.
#ifndef KERAS_SPARSE_OPS_TF_BINDING_ERROR_PREFIX_H_
#define KERAS_SPARSE_OPS_TF_BINDING_ERROR_PREFIX_H_

#include <string>

// Called from Python, by name, at any time; later errors begin with `prefix`, which is copied:
// "[rank 3 of 8] ", or empty in a single process.
extern "C" void keras_sparse_set_error_prefix(const char* prefix);

namespace keras_sparse {

// Returns `message` after the prefix.
std::string WithErrorPrefix(const std::string& message);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_BINDING_ERROR_PREFIX_H_
