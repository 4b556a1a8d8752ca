// Evicts first the rows that had a gradient in the fewest steps.
#include "ops/core/eviction/eviction_policy.h"

namespace keras_sparse {
namespace {

class Lfu : public EvictionPolicy {
 public:
  bool needs_age() const override { return true; }
  bool needs_frequency() const override { return true; }
  bool makes_room() const override { return true; }
  bool Evicts(uint32_t /*age*/, const float* /*row*/, int64_t /*dim*/) const override {
    return false;
  }
};

Status CreateLfuPolicy(const EvictionOptions& /*options*/,
                       std::unique_ptr<EvictionPolicy>* policy) {
  *policy = std::make_unique<Lfu>();
  return Status::Ok();
}

const bool kRegistered = EvictionPolicy::Register("lfu", {}, CreateLfuPolicy);

}  // namespace
}  // namespace keras_sparse
