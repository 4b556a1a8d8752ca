#include "ops/core/optimizer/rules/momentum.h"
#include "ops/core/optimizer/update_kernel.h"

namespace keras_sparse::cuda_impl {
namespace {

const bool kRegistered = RegisterKernelsOf<MomentumElement>("momentum");

}  // namespace
}  // namespace keras_sparse::cuda_impl
