#include "ops/core/device/device_code.h"
#include "ops/core/device/device_requests.h"
#include "ops/core/ids/check_bags.h"

namespace keras_sparse::cuda_impl {
namespace {

__global__ void CheckBagsKernel(Requests<BagsToCheck> requests) {
  const Parts& parts = requests.parts;
  for (int64_t i = LaneOfKernel(); i < parts.size(); i += LanesOfKernel()) {
    const int r = parts.Find(i);
    const BagsToCheck& request = requests.requests[r];
    const int64_t bag = i - parts.firsts[r];
    const BagIds ids = {request.bags.row_splits[bag], request.bags.row_splits[bag + 1]};
    if (ids.AreSound(request.bags, bag)) continue;
    atomicMin(&request.checks->refused_bag, static_cast<unsigned long long>(bag));
  }
}

}  // namespace

Status CheckBags(const std::vector<BagsToCheck>& all, Device* device) {
  std::vector<BagsToCheck> with_bags;
  std::vector<int64_t> num_bags;
  for (const BagsToCheck& each : all) {
    if (each.bags.combiner == Combiner::kNone) continue;
    with_bags.push_back(each);
    num_bags.push_back(each.bags.num_bags);
  }
  if (with_bags.empty()) return Status::Ok();
  RequestsOnDevice<BagsToCheck> on_device;
  KERAS_SPARSE_RETURN_IF_ERROR(
      RequestsOnDevice<BagsToCheck>::Copy(device, with_bags, num_bags, &on_device));
  Launch(CheckBagsKernel, BlocksFor(*device, on_device.size()), kBlock, device->stream(),
         on_device.view());
  return Status::Ok();
}

}  // namespace keras_sparse::cuda_impl
