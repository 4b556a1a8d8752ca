#include "ops/core/stores/hbm/hbm_store.h"

namespace keras_sparse {
namespace {

// A function's static, because static objects set it in unspecified order.
HbmStore::Opener& TheOpener() {
  static HbmStore::Opener opener = nullptr;
  return opener;
}

}  // namespace

Status HbmStore::Open(Device* device, int64_t num_rows, int64_t record_bytes, const HbmLimit& limit,
                      std::unique_ptr<HbmStore>* store) {
  if (TheOpener() != nullptr) {
    return TheOpener()(device, num_rows, record_bytes, limit, store);
  }
  return Status(StatusCode::kUnimplemented,
                "a table in a GPU's memory needs a build with CUDA: `KERAS_SPARSE_CUDA=ON pip "
                "install .`");
}

bool HbmStore::SetOpener(Opener opener) {
  TheOpener() = opener;
  return true;
}

}  // namespace keras_sparse
