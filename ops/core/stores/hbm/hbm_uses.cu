#include <algorithm>

#include "ops/core/device/device_code.h"
#include "ops/core/device/device_requests.h"
#include "ops/core/stores/hbm/hbm_uses.h"

namespace keras_sparse {
namespace {

constexpr int kDigitBits = 8;
constexpr int kDigits = 1 << kDigitBits;

// Uses of all rows, as scores.
struct Scores {
  RecordsView uses;
  uint32_t now;
  bool counts;

  __device__ RowUses* Of(int64_t row) const {
    return reinterpret_cast<RowUses*>(uses.Record(static_cast<uint32_t>(row)));
  }
  // Returns false for a free row.
  __device__ bool Find(int64_t row, uint64_t* score) const {
    const RowUses of_row = *Of(row);
    *score = counts ? of_row.FrequencyScore(now) : RecencyScore(of_row.last, now);
    return of_row.count != 0;
  }
};

__global__ void StartKernel(Scores all, const uint32_t* rows, int64_t n) {
  for (int64_t i = cuda_impl::LaneOfKernel(); i < n; i += cuda_impl::LanesOfKernel()) {
    *all.Of(rows[i]) = {1, all.now};
  }
}

// Only one of the lanes that use a row counts the use.
__global__ void UseKernel(Scores all, const uint32_t* rows, int64_t n) {
  for (int64_t i = cuda_impl::LaneOfKernel(); i < n; i += cuda_impl::LanesOfKernel()) {
    if (rows[i] == kNoHbmRow) continue;
    RowUses* uses = all.Of(rows[i]);
    const uint32_t last = atomicExch(&uses->last, all.now);
    if (last != all.now) uses->count = RowUses{uses->count, last}.UsedAt(all.now).count;
  }
}

struct DigitCounts {
  unsigned long long of[kDigits];
};

// Counts, for the scores that begin with `prefix`, each value of the next digit, which starts
// `shift` bits from the end.
__global__ void CountKernel(Scores all, int64_t end, uint64_t prefix, int shift,
                            DigitCounts* counts) {
  auto& of_block = cuda_impl::SharedOfBlock<DigitCounts>();
  for (unsigned i = threadIdx.x; i < kDigits; i += blockDim.x) of_block.of[i] = 0;
  __syncthreads();
  for (int64_t row = cuda_impl::LaneOfKernel(); row < end; row += cuda_impl::LanesOfKernel()) {
    uint64_t score = 0;
    if (!all.Find(row, &score) || score >> shift >> kDigitBits != prefix) continue;
    atomicAdd(&of_block.of[score >> shift & (kDigits - 1)], 1ull);
  }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < kDigits; i += blockDim.x) {
    if (of_block.of[i] != 0) atomicAdd(&counts->of[i], of_block.of[i]);
  }
}

// Rows of one piece: rows below a score from the front, rows with that score from the back.
struct Collected {
  unsigned long long num_below;
  unsigned long long num_equal;
};

__global__ void CollectKernel(Scores all, int64_t first, int64_t n, uint64_t score,
                              Collected* collected, uint32_t* rows) {
  for (int64_t i = cuda_impl::LaneOfKernel(); i < n; i += cuda_impl::LanesOfKernel()) {
    uint64_t found = 0;
    if (!all.Find(first + i, &found) || found > score) continue;
    const auto row = static_cast<uint32_t>(first + i);
    if (found < score) {
      rows[atomicAdd(&collected->num_below, 1ull)] = row;
    } else {
      rows[n - 1 - static_cast<int64_t>(atomicAdd(&collected->num_equal, 1ull))] = row;
    }
  }
}

// Appends n rows from the GPU's memory.
Status Append(const uint32_t* from, uint64_t n, Device* device, std::vector<uint32_t>* rows) {
  if (n == 0) return Status::Ok();
  const size_t size = rows->size();
  rows->resize(size + n);
  return device->CopyToHost(from, static_cast<int64_t>(n * sizeof(uint32_t)), rows->data() + size);
}

}  // namespace

HbmUses::HbmUses(Device* device, bool counts) : device_(device), counts_(counts) { Clear(); }

void HbmUses::Clear() { uses_ = HbmRecords(device_, kRowBytes, kMostHbmRows); }

void HbmUses::Start(const uint32_t* rows, int64_t n) {
  num_started_ += n;
  cuda_impl::Launch(StartKernel, cuda_impl::BlocksFor(*device_, n), cuda_impl::kBlock,
                    device_->stream(), Scores{uses_.view(), now_, counts_}, rows, n);
}

Status HbmUses::End(const uint32_t* rows, int64_t n, HbmTransfer* transfer) {
  const RowUses none = {0, 0};
  return transfer->Write(
      rows, n, [&none](int64_t) { return reinterpret_cast<const char*>(&none); }, &uses_);
}

void HbmUses::Use(const uint32_t* rows, int64_t n) {
  cuda_impl::Launch(UseKernel, cuda_impl::BlocksFor(*device_, n), cuda_impl::kBlock,
                    device_->stream(), Scores{uses_.view(), now_, counts_}, rows, n);
}

Status HbmUses::FindScore(int64_t end, HbmTransfer* transfer, uint64_t* score, int64_t* n) const {
  const Scores all = {uses_.view(), now_, counts_};
  *score = 0;
  // Without counts a score has only the lower half.
  for (int shift = (counts_ ? 64 : 32) - kDigitBits; shift >= 0; shift -= kDigitBits) {
    DigitCounts counts = {};
    const auto count = [&](char* memory, int64_t) {
      auto* there = reinterpret_cast<DigitCounts*>(memory);
      KERAS_SPARSE_RETURN_IF_ERROR(device_->Fill(there, 0, sizeof(counts)));
      cuda_impl::Launch(CountKernel, cuda_impl::BlocksFor(*device_, end), cuda_impl::kBlock,
                        device_->stream(), all, end, *score, shift, there);
      return device_->CopyToHost(there, sizeof(counts), &counts);
    };
    KERAS_SPARSE_RETURN_IF_ERROR(transfer->Borrow(count));
    uint64_t digit = 0;
    while (digit + 1 < kDigits && static_cast<int64_t>(counts.of[digit]) < *n) {
      *n -= static_cast<int64_t>(counts.of[digit++]);
    }
    *score = *score << kDigitBits | digit;
  }
  return Status::Ok();
}

Status HbmUses::FindColdest(int64_t n, int64_t end, HbmTransfer* transfer, Coldest* coldest) const {
  *coldest = {{}, {}, n};
  uint64_t score = 0;
  KERAS_SPARSE_RETURN_IF_ERROR(FindScore(end, transfer, &score, &coldest->num_of_tied));
  return transfer->Borrow([&](char* memory, int64_t bytes) {
    auto* there = reinterpret_cast<Collected*>(memory);
    auto* rows = reinterpret_cast<uint32_t*>(there + 1);
    const auto most = static_cast<int64_t>((bytes - sizeof(Collected)) / sizeof(uint32_t));
    for (int64_t first = 0; first < end; first += most) {
      const int64_t size = std::min(most, end - first);
      Collected collected = {};
      KERAS_SPARSE_RETURN_IF_ERROR(device_->Fill(there, 0, sizeof(collected)));
      cuda_impl::Launch(CollectKernel, cuda_impl::BlocksFor(*device_, size), cuda_impl::kBlock,
                        device_->stream(), Scores{uses_.view(), now_, counts_}, first, size, score,
                        there, rows);
      KERAS_SPARSE_RETURN_IF_ERROR(device_->CopyToHost(there, sizeof(collected), &collected));
      KERAS_SPARSE_RETURN_IF_ERROR(Append(rows, collected.num_below, device_, &coldest->rows));
      KERAS_SPARSE_RETURN_IF_ERROR(
          Append(rows + size - collected.num_equal, collected.num_equal, device_, &coldest->tied));
    }
    return Status::Ok();
  });
}

}  // namespace keras_sparse
