#include "ops/core/optimizer/rules/adadelta.h"
#include "ops/core/optimizer/update_kernel.h"

namespace keras_sparse::cuda_impl {
namespace {

const bool kRegistered = RegisterKernelsOf<AdadeltaElement>("adadelta");

}  // namespace
}  // namespace keras_sparse::cuda_impl
