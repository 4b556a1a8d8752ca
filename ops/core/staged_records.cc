#include "ops/core/staged_records.h"

#include <utility>

namespace keras_sparse {
namespace {

// A few batches of a training step; evaluation adds them without end. Each is searched for each
// key.
constexpr int64_t kMaxBytes = int64_t{64} << 20;
constexpr size_t kMaxBatches = 8;

}  // namespace

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
