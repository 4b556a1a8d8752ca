#include <string>

#include "ops/core/optimizer/rules/rmsprop.h"
#include "ops/core/optimizer/update_kernel.h"

namespace keras_sparse::cuda_impl {
namespace {

bool Register(const std::string& rule) {
  return RegisterKernelsOf<RmsPropElement<false, false>, RmsPropElement<false, true>,
                           RmsPropElement<true, false>, RmsPropElement<true, true>>(rule);
}

const bool kRegistered = Register("rmsprop") && Register("lazy_rmsprop");

}  // namespace
}  // namespace keras_sparse::cuda_impl
