#include "ops/core/optimizer/rules/ftrl.h"
#include "ops/core/optimizer/update_kernel.h"

namespace keras_sparse::cuda_impl {
namespace {

const bool kRegistered = RegisterKernelsOf<FtrlElement<true>, FtrlElement<false>>("ftrl");

}  // namespace
}  // namespace keras_sparse::cuda_impl
