#include "ops/core/stores/store_stack.h"

#include <utility>

#include "ops/core/base/background_pool.h"
#include "ops/core/stores/tiered_store.h"
#include "ops/core/stores/write_back_buffer.h"

namespace keras_sparse {
namespace {

constexpr int64_t kCompactChunkRows = 65536;
// A few steps' demotions: a step waits only if the store is permanently slower than training.
constexpr int64_t kMaxQueuedBytes = int64_t{64} << 20;

}  // namespace

Status StoreStack::Open(const std::vector<StoreOptions>& options, StoreStack* stack) {
  if (options.empty()) return Status::Ok();
  StoreStack made;
  BackgroundPool* pool = nullptr;
  KERAS_SPARSE_RETURN_IF_ERROR(BackgroundPool::ForEviction(&pool));
  std::vector<std::unique_ptr<RowStore>> opened(options.size());
  for (size_t i = 0; i < options.size(); ++i) {
    KERAS_SPARSE_RETURN_IF_ERROR(RowStore::Open(options[i], &opened[i]));
    made.counted_stores.push_back(new InstrumentedStore(std::move(opened[i])));
    opened[i].reset(made.counted_stores.back());
  }
  // From the last tier up, each tier and the store below it become one store.
  while (opened.size() > 1) {
    std::unique_ptr<RowStore> lower = std::move(opened.back());
    opened.pop_back();
    KERAS_SPARSE_RETURN_IF_ERROR(
        TieredStore::Open(std::move(opened.back()), std::move(lower), &opened.back()));
  }
  made.store = std::move(opened[0]);
  if (pool != nullptr) {
    made.store = std::make_unique<WriteBackBuffer>(std::move(made.store), pool, kMaxQueuedBytes);
  }
  *stack = std::move(made);
  return Status::Ok();
}

Status LayOutStore(const RowStore& store, const RecordLayout& from, const RecordLayout& to,
                   int64_t step, RowStore* laid_out) {
  for (int64_t cursor = 0; cursor >= 0;) {
    std::vector<int64_t> keys;
    std::vector<char> records;
    KERAS_SPARSE_RETURN_IF_ERROR(store.Walk(cursor, kCompactChunkRows, &keys, &records, &cursor));
    std::vector<char> to_put(keys.size() * static_cast<size_t>(to.record_bytes()));
    for (size_t k = 0; k < keys.size(); ++k) {
      const char* record = records.data() + static_cast<int64_t>(k) * store.record_bytes();
      char* place = to_put.data() + static_cast<int64_t>(k) * to.record_bytes();
      to.LayOut(from, reinterpret_cast<const float*>(record), step,
                reinterpret_cast<float*>(place));
    }
    KERAS_SPARSE_RETURN_IF_ERROR(
        laid_out->Put(keys.data(), static_cast<int64_t>(keys.size()), to_put.data()));
  }
  return laid_out->Flush();
}

}  // namespace keras_sparse
