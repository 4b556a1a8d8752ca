#include "ops/core/optimizer/rules/adam.h"
#include "ops/core/optimizer/update_kernel.h"

namespace keras_sparse::cuda_impl {
namespace {

const bool kRegistered =
    RegisterKernelsOf<AdamElement>("adam") && RegisterKernelsOf<AdamElement>("lazy_adam");

}  // namespace
}  // namespace keras_sparse::cuda_impl
