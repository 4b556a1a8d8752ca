// Records that lookups have read from lower tiers, kept for the update that follows.
#ifndef KERAS_SPARSE_OPS_CORE_STAGED_RECORDS_H_
#define KERAS_SPARSE_OPS_CORE_STAGED_RECORDS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ops/core/hash.h"
#include "ops/core/hash_index.h"
#include "ops/core/status.h"

namespace keras_sparse {

// Some records by key; it does not change once it is staged.
class RecordBatch {
 public:
  //   records  (num_places, record_bytes)
  RecordBatch(int64_t record_bytes, size_t num_places, std::unique_ptr<char[]> records)
      : record_bytes_(record_bytes),
        num_places_(static_cast<int64_t>(num_places)),
        index_(0, static_cast<int64_t>(num_places)),
        records_(std::move(records)) {}

  // Where a record is to be read to, before it is added.
  char* Place(size_t place) const {
    return records_.get() + static_cast<int64_t>(place) * record_bytes_;
  }
  // REQUIRES: the key is not there
  void Add(int64_t key, size_t place) {
    index_.Insert(HashKey(key), key, static_cast<uint32_t>(place));
  }
  // Null if the key is not there.
  const float* Find(int64_t key) const {
    const uint32_t row = index_.Find(HashKey(key), key);
    if (row == HashIndex::kNoRow) return nullptr;
    return reinterpret_cast<const float*>(Place(row));
  }
  int64_t size() const { return index_.size(); }
  int64_t bytes() const { return num_places_ * record_bytes_ + index_.bytes(); }
  // Makes a batch of the same records without places to spare. ResourceExhausted if there is no
  // memory.
  Status Fit(std::shared_ptr<RecordBatch>* fitted) const;

 private:
  int64_t record_bytes_;
  int64_t num_places_;
  HashIndex index_;  // key -> place
  std::unique_ptr<char[]> records_;
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
