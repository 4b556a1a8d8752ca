#include "ops/core/stores/record_batch.h"

#include <cstring>
#include <numeric>
#include <utility>

#include "ops/core/base/bytes.h"

namespace keras_sparse {

Status RecordBatch::Read(const RowStores& stores, const std::vector<int64_t>& keys,
                         std::shared_ptr<const RecordBatch>* batch) {
  std::shared_ptr<RecordBatch> read(new RecordBatch(stores.front()->record_bytes()));
  KERAS_SPARSE_RETURN_IF_ERROR(read->Allocate(keys.size()));
  std::vector<char*> to;
  to.reserve(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) to.push_back(read->At(i));
  const auto found = std::make_unique<bool[]>(keys.size());
  std::vector<int64_t> places(keys.size());  // positions of keys not found yet
  std::iota(places.begin(), places.end(), 0);
  for (const auto& store : stores) {
    KERAS_SPARSE_RETURN_IF_ERROR(store->GetPlaces(places, keys.data(), to.data(), found.get()));
    std::vector<int64_t> still_missing;
    for (const int64_t place : places) {
      if (!found[place]) {
        still_missing.push_back(place);
      } else {
        read->keys_.push_back(keys[static_cast<size_t>(place)]);
        read->places_.push_back(static_cast<size_t>(place));
      }
    }
    places = std::move(still_missing);
  }
  KERAS_SPARSE_RETURN_IF_ERROR(read->Fit());
  *batch = std::move(read);
  return Status::Ok();
}

Status RecordBatch::Allocate(size_t num_places) {
  num_places_ = num_places;
  return AllocateBytes(static_cast<int64_t>(num_places) * record_bytes_, &records_);
}

Status RecordBatch::Fit() {
  // Many keys may be new: the batch keeps only the memory that the others need.
  if (2 * size() >= num_places_) return Status::Ok();
  const std::unique_ptr<char[]> records = std::move(records_);
  KERAS_SPARSE_RETURN_IF_ERROR(Allocate(size()));
  for (size_t i = 0; i < size(); ++i) {
    const char* record = records.get() + static_cast<int64_t>(places_[i]) * record_bytes_;
    std::memcpy(At(i), record, static_cast<size_t>(record_bytes_));
    places_[i] = i;
  }
  return Status::Ok();
}

int64_t RecordBatch::bytes() const {
  const size_t beside = sizeof(int64_t) + sizeof(size_t);
  return static_cast<int64_t>(num_places_) * record_bytes_ + static_cast<int64_t>(size() * beside);
}

}  // namespace keras_sparse
