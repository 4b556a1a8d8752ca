// The ops that take tables in any memory. All other ops run where their tables are.
#include "tensorflow/core/common_runtime/input_colocation_exemption_registry.h"

namespace keras_sparse {
namespace {

// Headers and ids of these ops are in host memory, wherever the op itself runs.
const bool kRegistered = [] {
  for (const char* op : {"KerasSparseServeRows", "KerasSparseBeginLookup", "KerasSparseServeRound",
                         "KerasSparseCreateExchangeArea"}) {
    tensorflow::InputColocationExemptionRegistry::Global()->Register(op);
  }
  return true;
}();

}  // namespace
}  // namespace keras_sparse
