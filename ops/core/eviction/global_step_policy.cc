// Evicts a row whose last gradient is more than `steps_to_live` steps old.
#include <cmath>

#include "ops/core/eviction/eviction_policy.h"

namespace keras_sparse {
namespace {

class GlobalStep : public EvictionPolicy {
 public:
  explicit GlobalStep(uint32_t steps_to_live) : steps_to_live_(steps_to_live) {}

  bool needs_age() const override { return true; }
  bool Evicts(uint32_t age, const float* /*row*/, int64_t /*dim*/) const override {
    return age > steps_to_live_;
  }

 private:
  uint32_t steps_to_live_;
};

Status CreateGlobalStepPolicy(const EvictionOptions& options,
                              std::unique_ptr<EvictionPolicy>* policy) {
  const double steps = options.constants.at("steps_to_live");
  // Ages wrap at 2^32: half of the range is left for finding a row in time.
  if (!(steps >= 1 && steps < 0x1p31) || steps != std::floor(steps)) {
    return InvalidArgument(
        "`steps_to_live` must be an integer in [1, 2^31). Received: "
        "steps_to_live=" +
        std::to_string(steps));
  }
  *policy = std::make_unique<GlobalStep>(static_cast<uint32_t>(steps));
  return Status::Ok();
}

const bool kRegistered =
    EvictionPolicy::Register("global_step", {"steps_to_live"}, CreateGlobalStepPolicy);

}  // namespace
}  // namespace keras_sparse
