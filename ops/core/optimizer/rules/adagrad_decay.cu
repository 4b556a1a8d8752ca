#include "ops/core/optimizer/rules/adagrad_decay.h"
#include "ops/core/optimizer/update_kernel.h"

namespace keras_sparse::cuda_impl {
namespace {

const bool kRegistered = RegisterKernelsOf<AdagradDecayElement>("adagrad_decay");

}  // namespace
}  // namespace keras_sparse::cuda_impl
