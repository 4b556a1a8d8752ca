#include "ops/core/first_tier/staging_tier.h"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "ops/core/base/bytes.h"

namespace keras_sparse {

Status StagingTier::DemoteExcess(Executor* /*executor*/, const PutRecords& put) {
  if (HashTableTier::num_rows() == 0) return Status::Ok();
  std::vector<int64_t> keys;
  std::vector<const float*> records;
  for (int64_t cursor = 0; cursor >= 0;) cursor = Walk(cursor, INT64_MAX, &keys, &records);
  const int64_t record_bytes = layout().record_bytes();
  std::unique_ptr<char[]> copies;
  KERAS_SPARSE_RETURN_IF_ERROR(
      AllocateBytes(static_cast<int64_t>(keys.size()) * record_bytes, &copies));
  char* to = copies.get();
  for (const float* record : records) {
    std::memcpy(to, record, static_cast<size_t>(record_bytes));
    to += record_bytes;
  }
  KERAS_SPARSE_RETURN_IF_ERROR(put(keys, std::move(copies)));
  DropAll();
  return Status::Ok();
}

}  // namespace keras_sparse
