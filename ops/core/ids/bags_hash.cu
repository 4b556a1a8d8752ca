
#include "ops/core/device/device_code.h"
#include "ops/core/device/device_requests.h"
#include "ops/core/ids/bags_hash.h"

namespace keras_sparse::cuda_impl {
namespace {

// Numbers that one warp sums.
constexpr int64_t kNumbers = 2048;

// A list of one of the two kinds, or an empty one.
struct ListToHash {
  const int64_t* numbers;
  const float* floats;
  int64_t size;
  ListHash* hash;
};

__device__ unsigned long long SumOfWarp(unsigned long long sum) {
  using T = Tile<kWarp>;
  for (int half = kWarp / 2; half > 0; half /= 2) sum += T::FromLane(sum, T::Lane() + half);
  return sum;  // valid on lane 0
}

__global__ void HashListsKernel(Requests<ListToHash> requests) {
  using T = Tile<kWarp>;
  const Parts& parts = requests.parts;
  for (int64_t i = T::Number(); i < parts.size(); i += T::Count()) {
    const int r = parts.Find(i);
    const ListToHash list = requests.requests[r];
    const int64_t begin = (i - parts.firsts[r]) * kNumbers;
    const int64_t end = begin + kNumbers < list.size ? begin + kNumbers : list.size;
    ListHash hash;
    for (int64_t place = begin + T::Lane(); place < end; place += kWarp) {
      if (list.numbers != nullptr) {
        hash.Add(list.numbers[place], place);
      } else {
        hash.Add(list.floats[place], place);
      }
    }
    const unsigned long long low = SumOfWarp(hash.low);
    const unsigned long long high = SumOfWarp(hash.high);
    if (T::Lane() != 0) continue;
    atomicAdd(&list.hash->low, low);
    atomicAdd(&list.hash->high, high);
  }
}

}  // namespace

Status HashOf(const std::vector<BagsToHash>& lists, Device* device, std::vector<BagsHash>* hashes) {
  DeviceArray<BagsHash> on_device;
  KERAS_SPARSE_RETURN_IF_ERROR(
      DeviceArray<BagsHash>::Copy(device, std::vector<BagsHash>(lists.size()), &on_device));
  std::vector<ListToHash> requests;
  std::vector<int64_t> num_parts;
  const auto add = [&](const int64_t* numbers, const float* floats, int64_t size, ListHash* hash) {
    requests.push_back({numbers, floats, size, hash});
    num_parts.push_back((size + kNumbers - 1) / kNumbers);
  };
  for (size_t i = 0; i < lists.size(); ++i) {
    const Bags& bags = lists[i].bags;
    BagsHash* hash = on_device.data() + i;
    add(lists[i].ids, nullptr, bags.num_ids, &hash->ids);
    if (bags.combiner != Combiner::kNone) {
      add(bags.row_splits, nullptr, bags.num_bags + 1, &hash->row_splits);
    }
    if (bags.weights != nullptr) add(nullptr, bags.weights, bags.num_ids, &hash->weights);
  }
  RequestsOnDevice<ListToHash> to_hash;
  KERAS_SPARSE_RETURN_IF_ERROR(
      RequestsOnDevice<ListToHash>::Copy(device, requests, num_parts, &to_hash));
  Launch(HashListsKernel, BlocksFor(*device, to_hash.size(), kWarp), kBlock, device->stream(),
         to_hash.view());
  return on_device.Read(hashes);
}

}  // namespace keras_sparse::cuda_impl
