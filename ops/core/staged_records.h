// Records that lookups have read from lower tiers, kept for the update that follows.
#ifndef KERAS_SPARSE_OPS_CORE_STAGED_RECORDS_H_
#define KERAS_SPARSE_OPS_CORE_STAGED_RECORDS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "ops/core/hash.h"
#include "ops/core/hash_index.h"

namespace keras_sparse {

// Some records by key; it does not change once it is made.
class RecordBatch {
 public:
  explicit RecordBatch(int64_t record_bytes) : record_bytes_(record_bytes) {}

  // REQUIRES: the key is not there
  void Add(int64_t key, const char* record) {
    index_.Insert(HashKey(key), key, static_cast<uint32_t>(index_.size()));
    records_.insert(records_.end(), record, record + record_bytes_);
  }
  // Null if the key is not there.
  const float* Find(int64_t key) const {
    const uint32_t row = index_.Find(HashKey(key), key);
    if (row == HashIndex::kNoRow) return nullptr;
    return reinterpret_cast<const float*>(records_.data() + int64_t{row} * record_bytes_);
  }
  int64_t size() const { return index_.size(); }
  int64_t bytes() const { return static_cast<int64_t>(records_.capacity()) + index_.bytes(); }

 private:
  int64_t record_bytes_;
  HashIndex index_{0};
  std::vector<char> records_;
};

// A training step looks its rows up and then updates them: what the lookup has read need not be
// read again. Batches are good until a lower tier changes; then they are dropped.
//
// Thread safety: every method may be called from any thread.
class StagedRecords {
 public:
  using Batches = std::vector<std::shared_ptr<const RecordBatch>>;

  // The oldest batches go where there are too many.
  void Add(std::shared_ptr<const RecordBatch> batch);
  Batches batches() const;
  void Clear();
  int64_t bytes() const;

 private:
  mutable std::mutex mutex_;
  std::deque<std::shared_ptr<const RecordBatch>> batches_;
  int64_t bytes_ = 0;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STAGED_RECORDS_H_
