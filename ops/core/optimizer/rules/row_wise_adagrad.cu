#include "ops/core/optimizer/rules/row_wise_adagrad.h"
#include "ops/core/optimizer/update_kernel.h"

namespace keras_sparse::cuda_impl {

template <>
constexpr size_t kMostPieces<RowWiseAdagradElement> = 4;

namespace {

const bool kRegistered = RegisterKernelsOf<RowWiseAdagradElement>("row_wise_adagrad");

}  // namespace
}  // namespace keras_sparse::cuda_impl
