#include "ops/core/staged_records.h"

#include <cstring>
#include <utility>

#include "ops/core/bytes.h"

namespace keras_sparse {
namespace {

// A few batches of a training step; evaluation adds them without end. Each is searched for each
// key.
constexpr int64_t kMaxBytes = int64_t{64} << 20;
constexpr size_t kMaxBatches = 8;

}  // namespace

Status RecordBatch::Fit(std::shared_ptr<RecordBatch>* fitted) const {
  std::vector<int64_t> keys;
  std::vector<uint32_t> places;
  (void)index_.AppendSegments(0, INT64_MAX, &keys, &places);
  std::unique_ptr<char[]> records;
  KERAS_SPARSE_RETURN_IF_ERROR(AllocateBytes(size() * record_bytes_, &records));
  auto made = std::make_shared<RecordBatch>(record_bytes_, keys.size(), std::move(records));
  for (size_t i = 0; i < keys.size(); ++i) {
    std::memcpy(made->Place(i), Place(places[i]), static_cast<size_t>(record_bytes_));
    made->Add(keys[i], i);
  }
  *fitted = std::move(made);  // last: it may be what holds this batch
  return Status::Ok();
}

void StagedRecords::Add(std::shared_ptr<const RecordBatch> batch) {
  std::lock_guard<std::mutex> lock(mutex_);
  bytes_ += batch->bytes();
  batches_.push_back(std::move(batch));
  while (batches_.size() > 1 && (bytes_ > kMaxBytes || batches_.size() > kMaxBatches)) {
    bytes_ -= batches_.front()->bytes();
    batches_.pop_front();
  }
}

StagedRecords::Batches StagedRecords::batches() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return Batches(batches_.begin(), batches_.end());
}

void StagedRecords::Clear() {
  std::lock_guard<std::mutex> lock(mutex_);
  batches_.clear();
  bytes_ = 0;
}

int64_t StagedRecords::bytes() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return bytes_;
}

}  // namespace keras_sparse
