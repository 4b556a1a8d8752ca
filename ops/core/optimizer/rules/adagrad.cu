#include "ops/core/optimizer/rules/adagrad.h"
#include "ops/core/optimizer/update_kernel.h"

namespace keras_sparse::cuda_impl {
namespace {

const bool kRegistered = RegisterKernelsOf<AdagradElement>("adagrad");

}  // namespace
}  // namespace keras_sparse::cuda_impl
