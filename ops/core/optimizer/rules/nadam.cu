#include "ops/core/optimizer/rules/nadam.h"
#include "ops/core/optimizer/update_kernel.h"

namespace keras_sparse::cuda_impl {
namespace {

const bool kRegistered = RegisterKernelsOf<NadamElement>("nadam");

}  // namespace
}  // namespace keras_sparse::cuda_impl
