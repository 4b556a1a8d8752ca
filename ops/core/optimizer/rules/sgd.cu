#include "ops/core/optimizer/rules/sgd.h"
#include "ops/core/optimizer/update_kernel.h"

namespace keras_sparse::cuda_impl {
namespace {

const bool kRegistered = RegisterKernelsOf<SgdElement>("sgd");

}  // namespace
}  // namespace keras_sparse::cuda_impl
