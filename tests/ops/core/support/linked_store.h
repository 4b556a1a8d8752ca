// An SsdHashStore of small segments, for the tests that link them.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_LINKED_STORE_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_LINKED_STORE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "ops/core/stores/ssd/ssd_hash_store.h"
#include "tests/ops/core/support/testing.h"

namespace keras_sparse {

constexpr int64_t kBytes = 100;
constexpr int64_t kStride = 12 + kBytes;
constexpr int64_t kEntries = 100;  // of a segment
constexpr int64_t kSegmentBytes = 64 + kEntries * kStride;

inline std::unique_ptr<RowStore> OpenLinked(const std::string& folder,
                                            FileSystem* file_system = FileSystem::Posix(),
                                            BackgroundPool* compaction_pool = nullptr,
                                            int64_t capacity = INT64_MAX) {
  SsdHashOptions options;
  options.file_system = file_system;
  options.folder = folder;
  options.record_bytes = kBytes;
  options.segment_bytes = kSegmentBytes;
  options.compaction_pool = compaction_pool;
  options.capacity = capacity;
  std::unique_ptr<RowStore> store;
  EXPECT_TRUE(IsOk(SsdHashStore::Open(options, &store)));
  return store;
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_LINKED_STORE_H_
