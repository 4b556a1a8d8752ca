// The options of initial rows, as attributes of ops: `initializers`, `initializer_args` (a and b of
// each table), `seeds` and `initializer_parts` (first_column, key_stride and key_offset of each
// table).
#ifndef KERAS_SPARSE_OPS_TF_BINDING_INITIALIZER_ATTRIBUTES_H_
#define KERAS_SPARSE_OPS_TF_BINDING_INITIALIZER_ATTRIBUTES_H_

#include <vector>

#include "ops/core/record/initializer.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace keras_sparse {

// Reads them in an op's constructor; `N` is the number of tables.
absl::Status ReadInitializers(tensorflow::OpKernelConstruction* ctx,
                              std::vector<InitializerOptions>* initializers);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_BINDING_INITIALIZER_ATTRIBUTES_H_
