// Evicts first the rows whose last gradient is longest ago.
#include "ops/core/eviction/eviction_policy.h"

namespace keras_sparse {
namespace {

class Lru : public EvictionPolicy {
 public:
  bool needs_age() const override { return true; }
  bool makes_room() const override { return true; }
  bool Evicts(uint32_t /*age*/, const float* /*row*/, int64_t /*dim*/) const override {
    return false;
  }
};

Status CreateLruPolicy(const EvictionOptions& /*options*/,
                       std::unique_ptr<EvictionPolicy>* policy) {
  *policy = std::make_unique<Lru>();
  return Status::Ok();
}

const bool kRegistered = EvictionPolicy::Register("lru", {}, CreateLruPolicy);

}  // namespace
}  // namespace keras_sparse
