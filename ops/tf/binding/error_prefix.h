// What the messages of all native errors of this process begin with.
#ifndef KERAS_SPARSE_OPS_TF_BINDING_ERROR_PREFIX_H_
#define KERAS_SPARSE_OPS_TF_BINDING_ERROR_PREFIX_H_

#include <string>

// Called from Python, by name. It may be called at any time; errors from then on begin with
// `prefix`, which is copied: "[rank 3 of 8] ", or nothing in a plain process.
extern "C" void keras_sparse_set_error_prefix(const char* prefix);

namespace keras_sparse {

// Returns `message` behind the prefix.
std::string WithErrorPrefix(const std::string& message);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_BINDING_ERROR_PREFIX_H_
