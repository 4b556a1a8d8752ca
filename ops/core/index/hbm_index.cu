#include <algorithm>
#include <utility>

#include "ops/core/device/device_code.h"
#include "ops/core/device/device_requests.h"
#include "ops/core/index/hbm_index.h"
#include "ops/core/index/hbm_index_find.h"

namespace keras_sparse {
namespace {

using cuda_impl::BlocksFor;
using cuda_impl::kBlock;
using cuda_impl::LaneOfKernel;
using cuda_impl::LanesOfKernel;
using cuda_impl::Launch;

// About one erased key in this many was in a bucket that has overflowed.
constexpr int64_t kErasedPerTrace = 4;

// 85 % of the slots.
int64_t MostKeys(int64_t num_buckets) { return num_buckets * 17 / 2; }
int64_t BucketsFor(int64_t num_keys) { return num_keys * 2 / 17 + 1; }

// Reads the mask while other lanes change it.
__device__ uint32_t MaskNow(HbmBucket* bucket) { return atomicOr(bucket->words, 0u); }

// REQUIRES: a slot is free
__device__ void InsertKey(const HbmIndexView& view, int64_t key, uint32_t row) {
  uint32_t at = view.HomeOf(key);
  while (true) {
    HbmBucket* bucket = view.buckets + at;
    uint32_t mask = MaskNow(bucket);
    while ((mask & HbmBucket::kAllSlots) != HbmBucket::kAllSlots) {
      const auto slot = static_cast<uint32_t>(__ffs(static_cast<int>(~mask))) - 1;
      mask = atomicOr(bucket->words, 1u << slot);
      if ((mask >> slot & 1) != 0) continue;  // another lane has claimed it
      bucket->Set(slot, key, row);
      return;
    }
    if ((mask & HbmBucket::kOverflowed) == 0) atomicOr(bucket->words, HbmBucket::kOverflowed);
    if (++at == view.num_buckets) at = 0;
  }
}

__global__ void FindKernel(HbmIndexView view, const int64_t* keys, int64_t n, uint32_t* rows) {
  using T = cuda_impl::Tile<HbmIndexView::kLanes>;
  for (int64_t i = T::Number(); i < n; i += T::Count()) {
    const uint32_t row = view.FindByTile(keys[i]);
    if (T::Lane() == 0) rows[i] = row;
  }
}

__global__ void InsertKernel(HbmIndexView view, const int64_t* keys, const uint32_t* rows,
                             int64_t n) {
  for (int64_t i = LaneOfKernel(); i < n; i += LanesOfKernel()) InsertKey(view, keys[i], rows[i]);
}

__global__ void EraseKernel(HbmIndexView view, const int64_t* keys, int64_t n, uint32_t* rows,
                            uint32_t* num_found) {
  for (int64_t i = LaneOfKernel(); i < n; i += LanesOfKernel()) {
    const cuda_impl::HbmSlot slot = cuda_impl::FindSlot(view, keys[i], MaskNow);
    rows[i] = kNoHbmRow;
    if (slot.bucket == nullptr) continue;
    rows[i] = slot.bucket->Row(slot.number);
    atomicAnd(slot.bucket->words, ~(1u << slot.number));
    atomicAdd(num_found, 1u);
  }
}

__global__ void RehashKernel(HbmIndexView from, HbmIndexView to) {
  const int64_t num_slots = int64_t{from.num_buckets} * HbmBucket::kSlots;
  for (int64_t i = LaneOfKernel(); i < num_slots; i += LanesOfKernel()) {
    const HbmBucket& bucket = from.buckets[i / HbmBucket::kSlots];
    const auto slot = static_cast<uint32_t>(i % HbmBucket::kSlots);
    if ((bucket.words[0] >> slot & 1) == 0) continue;
    InsertKey(to, static_cast<int64_t>(bucket.Key(slot)), bucket.Row(slot));
  }
}

HbmIndexView ViewOf(const DeviceArray<HbmBucket>& buckets) {
  return {buckets.data(), static_cast<uint32_t>(buckets.size()), kHashSecret};
}

}  // namespace

Status HbmIndex::Open(Device* device, HbmIndex* index) {
  HbmIndex made;
  made.device_ = device;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Allocate(device, 1, &made.num_found_));
  *index = std::move(made);
  return Status::Ok();
}

HbmIndexView HbmIndex::view() const { return ViewOf(buckets_); }

void HbmIndex::Find(const int64_t* keys, int64_t n, uint32_t* rows) const {
  Launch(FindKernel, BlocksFor(*device_, n, HbmIndexView::kLanes), kBlock, device_->stream(),
         view(), keys, n, rows);
}

Status HbmIndex::Reserve(int64_t n) {
  const int64_t most = MostKeys(buckets_.size());
  const int64_t needed = size_ + n;
  if (needed + num_erased_ / kErasedPerTrace <= most) return Status::Ok();
  // If most of it is traces, the same number of buckets suffices; and then for a while.
  int64_t num_buckets = buckets_.size();
  if (needed > most * 2 / 3) num_buckets = std::max(num_buckets * 3 / 2, BucketsFor(needed));
  const Status status = Rehash(num_buckets);
  // Traces only slow the index down; they are no reason to reject a key.
  return needed <= most ? Status::Ok() : status;
}

Status HbmIndex::Rehash(int64_t num_buckets) {
  DeviceArray<HbmBucket> buckets;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<HbmBucket>::Allocate(device_, num_buckets, &buckets));
  KERAS_SPARSE_RETURN_IF_ERROR(device_->Fill(buckets.data(), 0, buckets.bytes()));
  Launch(RehashKernel, BlocksFor(*device_, buckets_.size() * HbmBucket::kSlots), kBlock,
         device_->stream(), view(), ViewOf(buckets));
  buckets_ = std::move(buckets);
  num_erased_ = 0;
  return Status::Ok();
}

Status HbmIndex::Insert(const int64_t* keys, const uint32_t* rows, int64_t n) {
  KERAS_SPARSE_RETURN_IF_ERROR(Reserve(n));
  Launch(InsertKernel, BlocksFor(*device_, n), kBlock, device_->stream(), view(), keys, rows, n);
  size_ += n;
  return Status::Ok();
}

Status HbmIndex::Erase(const int64_t* keys, int64_t n, uint32_t* rows) {
  KERAS_SPARSE_RETURN_IF_ERROR(device_->Fill(num_found_.data(), 0, num_found_.bytes()));
  Launch(EraseKernel, BlocksFor(*device_, n), kBlock, device_->stream(), view(), keys, n, rows,
         num_found_.data());
  uint32_t num_found = 0;
  KERAS_SPARSE_RETURN_IF_ERROR(
      device_->CopyToHost(num_found_.data(), num_found_.bytes(), &num_found));
  size_ -= num_found;
  num_erased_ += num_found;
  return Status::Ok();
}

void HbmIndex::Clear() {
  buckets_ = {};
  size_ = 0;
  num_erased_ = 0;
}

}  // namespace keras_sparse
