#include "ops/core/optimizer/rules/lion.h"
#include "ops/core/optimizer/update_kernel.h"

namespace keras_sparse::cuda_impl {
namespace {

const bool kRegistered = RegisterKernelsOf<LionElement<false>, LionElement<true>>("lion");

}  // namespace
}  // namespace keras_sparse::cuda_impl
