#include "ops/core/first_tier/dense_array_tier.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "ops/core/record/initializer.h"

namespace keras_sparse {
namespace {

// Large enough that a released range holds whole huge pages.
constexpr int64_t kRelayoutBytes = int64_t{64} << 20;

Status AllocateRows(int64_t num_rows, const RecordLayout& layout, HugeBuffer* buffer) {
  if (num_rows > std::numeric_limits<int64_t>::max() / layout.record_bytes() / 2) {
    return InvalidArgument(
        "`input_dim` times the bytes of a record must fit 62 bits. Received: input_dim=" +
        std::to_string(num_rows) + ", record bytes=" + std::to_string(layout.record_bytes()));
  }
  return HugeBuffer::Allocate(num_rows * layout.record_bytes(), buffer);
}

}  // namespace

Status DenseArrayTier::Open(int64_t num_rows, const RecordLayout& layout,
                            const Initializer& initializer, Executor* executor,
                            std::unique_ptr<FirstTier>* tier) {
  std::unique_ptr<DenseArrayTier> dense(new DenseArrayTier(num_rows, layout));
  KERAS_SPARSE_RETURN_IF_ERROR(AllocateRows(num_rows, layout, &dense->buffer_));
  KERAS_SPARSE_RETURN_IF_ERROR(dense->Clear(initializer, 0, executor));
  *tier = std::move(dense);
  return Status::Ok();
}

void DenseArrayTier::Find(const int64_t* keys, int64_t n, float** records) const {
  char* const data = buffer_.data();
  const int64_t record_bytes = layout_.record_bytes();
  const auto num_rows = static_cast<uint64_t>(num_rows_);
  for (int64_t i = 0; i < n; ++i) {
    const bool accepts = static_cast<uint64_t>(keys[i]) < num_rows;
    records[i] = accepts ? reinterpret_cast<float*>(data + keys[i] * record_bytes) : nullptr;
  }
}

Status DenseArrayTier::FindOrCreate(const int64_t* keys, int64_t n, float** records,
                                    bool* created) {
  for (int64_t i = 0; i < n; ++i) {
    records[i] = Record(keys[i]);
    created[i] = false;
  }
  if (is_changed_.empty()) return Status::Ok();
  for (int64_t i = 0; i < n; ++i) is_changed_[static_cast<size_t>(keys[i])] = 1;
  return Status::Ok();
}

Status DenseArrayTier::Relayout(const RecordLayout& layout, int64_t step, Executor* executor) {
  HugeBuffer buffer;
  KERAS_SPARSE_RETURN_IF_ERROR(AllocateRows(num_rows_, layout, &buffer));
  // In pieces, each freed once it is copied, so that the table never needs twice its memory.
  const int64_t piece = std::max<int64_t>(1, kRelayoutBytes / layout_.record_bytes());
  for (int64_t first = 0; first < num_rows_; first += piece) {
    const int64_t last = std::min(num_rows_, first + piece);
    executor->ParallelFor(last - first, layout.record_words(), [&](int64_t begin, int64_t end) {
      for (int64_t row = first + begin; row < first + end; ++row) {
        auto* record = reinterpret_cast<float*>(buffer.data() + row * layout.record_bytes());
        layout.LayOut(layout_, Record(row), step, record);
      }
    });
    buffer_.Discard(0, last * layout_.record_bytes());
  }
  buffer_ = std::move(buffer);
  layout_ = layout;
  return Status::Ok();
}

Status DenseArrayTier::Clear(const Initializer& initializer, int64_t step, Executor* executor) {
  executor->ParallelFor(num_rows_, layout_.record_bytes(), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      initializer.FillRecord(layout_, row, Record(row));
      layout_.InitializeSlots(Record(row), step);
    }
  });
  return Status::Ok();
}

int64_t DenseArrayTier::Walk(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
                             std::vector<const float*>* records) const {
  if (cursor >= num_rows_) return -1;
  const int64_t end = cursor + std::clamp<int64_t>(max_rows, 1, num_rows_ - cursor);
  for (int64_t row = cursor; row < end; ++row) {
    keys->push_back(row);
    records->push_back(Record(row));
  }
  return end < num_rows_ ? end : -1;
}

void DenseArrayTier::TrackChanges() { is_changed_.assign(static_cast<size_t>(num_rows_), 0); }

int64_t DenseArrayTier::WalkChanged(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
                                    std::vector<const float*>* records) const {
  const auto begin = is_changed_.begin();
  auto at = begin + std::min(cursor, num_rows_);
  for (int64_t n = 0; n < std::max<int64_t>(1, max_rows); ++n, ++at) {
    at = std::find(at, is_changed_.end(), 1);
    if (at == is_changed_.end()) return -1;
    keys->push_back(at - begin);
    records->push_back(Record(at - begin));
  }
  return at - begin;
}

}  // namespace keras_sparse
