#include "ops/core/optimizer/rules/amsgrad.h"
#include "ops/core/optimizer/update_kernel.h"

namespace keras_sparse::cuda_impl {
namespace {

const bool kRegistered = RegisterKernelsOf<AmsgradElement>("amsgrad");

}  // namespace
}  // namespace keras_sparse::cuda_impl
