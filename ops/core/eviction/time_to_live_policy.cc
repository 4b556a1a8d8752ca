// Evicts a row whose last gradient is more than `seconds` of wall-clock time old.
#include "ops/core/eviction/eviction_policy.h"

namespace keras_sparse {
namespace {

class TimeToLive : public EvictionPolicy {
 public:
  explicit TimeToLive(double seconds) : seconds_(seconds) {}

  bool needs_age() const override { return true; }
  bool takes_seconds() const override { return true; }
  bool Evicts(uint32_t age, const float* /*row*/, int64_t /*dim*/) const override {
    return age > seconds_;
  }

 private:
  double seconds_;
};

Status CreateTimeToLivePolicy(const EvictionOptions& options,
                              std::unique_ptr<EvictionPolicy>* policy) {
  const double seconds = options.constants.at("seconds");
  // Ages wrap at 2^32: half of the range is left for finding a row in time.
  if (!(seconds >= 1 && seconds < 0x1p31)) {
    return InvalidArgument("`seconds` must be in [1, 2^31). Received: seconds=" +
                           std::to_string(seconds));
  }
  *policy = std::make_unique<TimeToLive>(seconds);
  return Status::Ok();
}

const bool kRegistered =
    EvictionPolicy::Register("time_to_live", {"seconds"}, CreateTimeToLivePolicy);

}  // namespace
}  // namespace keras_sparse
