#include "ops/core/optimizer/rules/adamax.h"
#include "ops/core/optimizer/update_kernel.h"

namespace keras_sparse::cuda_impl {
namespace {

const bool kRegistered = RegisterKernelsOf<AdamaxElement>("adamax");

}  // namespace
}  // namespace keras_sparse::cuda_impl
