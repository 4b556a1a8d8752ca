#include "ops/core/stores/instrumented_store.h"

#include <algorithm>

#include "ops/core/base/wait_timer.h"

namespace keras_sparse {

StoreCounts InstrumentedStore::counts() const {
  StoreCounts counts;
  counts.hits = hits_;
  counts.misses = misses_;
  counts.added_rows = added_rows_;
  counts.moved_rows = moved_rows_;
  counts.erased_rows = erased_rows_;
  counts.read_bytes = hits_ * record_bytes();
  counts.write_bytes = put_rows_ * record_bytes();
  counts.busy_ns = busy_ns_;
  counts.compacted_bytes = compacted_bytes() - compacted_before_;
  return counts;
}

void InstrumentedStore::CountAnew() {
  for (auto* count :
       {&hits_, &misses_, &added_rows_, &moved_rows_, &erased_rows_, &put_rows_, &busy_ns_}) {
    *count = 0;
  }
  compacted_before_ = compacted_bytes();
}

Status InstrumentedStore::GetTo(const int64_t* keys, int64_t n, char* const* to,
                                bool* found) const {
  const WaitTimer timer(&busy_ns_);
  KERAS_SPARSE_RETURN_IF_ERROR(store_->GetTo(keys, n, to, found));
  const int64_t hits = std::count(found, found + n, true);
  hits_ += hits;
  misses_ += n - hits;
  return Status::Ok();
}

Status InstrumentedStore::Put(const int64_t* keys, int64_t n, const char* records) {
  return CountPut(n, [&] { return store_->Put(keys, n, records); });
}

Status InstrumentedStore::PutOwned(const int64_t* keys, int64_t n,
                                   std::unique_ptr<char[]> records) {
  return CountPut(n, [&] { return store_->PutOwned(keys, n, std::move(records)); });
}

template <typename PutRows>
Status InstrumentedStore::CountPut(int64_t n, const PutRows& put) {
  const WaitTimer timer(&busy_ns_);
  const int64_t rows = store_->num_rows();
  const Status status = put();
  added_rows_ += store_->num_rows() - rows;
  if (status.ok()) put_rows_ += n;
  return status;
}

Status InstrumentedStore::Erase(const int64_t* keys, int64_t n) {
  const WaitTimer timer(&busy_ns_);
  const int64_t rows = store_->num_rows();
  const Status status = store_->Erase(keys, n);
  if (counts_erasures_) erased_rows_ += rows - store_->num_rows();
  return status;
}

Status InstrumentedStore::EraseMoved(const int64_t* keys, int64_t n) {
  const WaitTimer timer(&busy_ns_);
  const int64_t rows = store_->num_rows();
  const Status status = store_->EraseMoved(keys, n);
  moved_rows_ += rows - store_->num_rows();
  return status;
}

}  // namespace keras_sparse
