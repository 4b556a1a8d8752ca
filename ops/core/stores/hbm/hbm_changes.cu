#include <algorithm>
#include <utility>

#include "ops/core/device/device_code.h"
#include "ops/core/device/device_requests.h"
#include "ops/core/index/hbm_row.h"
#include "ops/core/stores/hbm/hbm_changes.h"

namespace keras_sparse {
namespace {

constexpr int64_t kWordRows = 32;
// Words read at once, for two million rows.
constexpr int64_t kPieceWords = 65536;

int64_t WordsFor(int64_t num_rows) { return (num_rows + kWordRows - 1) / kWordRows; }

__global__ void MarkKernel(uint32_t* words, const uint32_t* rows, int64_t n) {
  for (int64_t i = cuda_impl::LaneOfKernel(); i < n; i += cuda_impl::LanesOfKernel()) {
    if (rows[i] != kNoHbmRow) atomicOr(words + rows[i] / kWordRows, 1u << rows[i] % kWordRows);
  }
}

__global__ void CopyWordsKernel(const uint32_t* from, int64_t n, uint32_t* to) {
  for (int64_t i = cuda_impl::LaneOfKernel(); i < n; i += cuda_impl::LanesOfKernel()) {
    to[i] = from[i];
  }
}

void AppendMarked(uint32_t word, int64_t first_row, std::vector<uint32_t>* rows) {
  for (; word != 0; word &= word - 1) {
    rows->push_back(static_cast<uint32_t>(first_row + __builtin_ctz(word)));
  }
}

}  // namespace

Status HbmChanges::Begin(int64_t num_rows) {
  are_kept_ = true;
  const Status begun = [&] {
    KERAS_SPARSE_RETURN_IF_ERROR(Grow(num_rows));
    return words_.size() == 0 ? Status::Ok() : device_->Fill(words_.data(), 0, words_.bytes());
  }();
  if (!begun.ok()) End();
  return begun;
}

Status HbmChanges::Grow(int64_t num_rows) {
  const int64_t num_words = WordsFor(num_rows);
  if (!are_kept_ || num_words <= words_.size()) return Status::Ok();
  DeviceArray<uint32_t> words;
  KERAS_SPARSE_RETURN_IF_ERROR(
      DeviceArray<uint32_t>::Allocate(device_, std::max(num_words, words_.size() * 3 / 2), &words));
  KERAS_SPARSE_RETURN_IF_ERROR(device_->Fill(words.data(), 0, words.bytes()));
  cuda_impl::Launch(CopyWordsKernel, cuda_impl::BlocksFor(*device_, words_.size()),
                    cuda_impl::kBlock, device_->stream(), words_.data(), words_.size(),
                    words.data());
  words_ = std::move(words);
  return Status::Ok();
}

void HbmChanges::Mark(const uint32_t* rows, int64_t n) {
  if (!are_kept_) return;
  cuda_impl::Launch(MarkKernel, cuda_impl::BlocksFor(*device_, n), cuda_impl::kBlock,
                    device_->stream(), words_.data(), rows, n);
}

Status HbmChanges::Read(int64_t first, int64_t n, std::vector<uint32_t>* words) const {
  words->resize(static_cast<size_t>(n));
  return device_->CopyToHost(words_.data() + first, n * static_cast<int64_t>(sizeof(uint32_t)),
                             words->data());
}

Status HbmChanges::Walk(int64_t cursor, int64_t max_rows, std::vector<uint32_t>* rows,
                        int64_t* next) const {
  const auto has_room = [&] { return static_cast<int64_t>(rows->size()) < max_rows; };
  int64_t at = cursor / kWordRows;
  std::vector<uint32_t> words;
  while (at < words_.size() && has_room()) {
    KERAS_SPARSE_RETURN_IF_ERROR(Read(at, std::min(kPieceWords, words_.size() - at), &words));
    for (size_t i = 0; i < words.size() && has_room(); ++i) {
      AppendMarked(words[i], at++ * kWordRows, rows);
    }
  }
  *next = at < words_.size() ? at * kWordRows : -1;
  return Status::Ok();
}

Status HbmChanges::AreMarked(const std::vector<uint32_t>& rows,
                             std::vector<bool>* are_marked) const {
  are_marked->assign(rows.size(), false);
  if (!are_kept_ || rows.empty()) return Status::Ok();
  std::vector<uint32_t> words;
  KERAS_SPARSE_RETURN_IF_ERROR(Read(0, words_.size(), &words));
  for (size_t i = 0; i < rows.size(); ++i) {
    (*are_marked)[i] = (words[rows[i] / kWordRows] >> rows[i] % kWordRows & 1) != 0;
  }
  return Status::Ok();
}

}  // namespace keras_sparse
