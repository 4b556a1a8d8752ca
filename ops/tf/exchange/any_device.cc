// The ops that take tables in any memory. All others run where their tables are.
#include "tensorflow/core/common_runtime/input_colocation_exemption_registry.h"

namespace keras_sparse {
namespace {

// What these take and give of headers and ids is the CPU's, wherever the op itself is.
const bool kRegistered = [] {
  for (const char* op : {"KerasSparseServeRows", "KerasSparseBeginLookup", "KerasSparseServeRound",
                         "KerasSparseCreateExchangeArea"}) {
    tensorflow::InputColocationExemptionRegistry::Global()->Register(op);
  }
  return true;
}();

}  // namespace
}  // namespace keras_sparse
