#include "ops/core/table/scan_rows.h"

#include <cstddef>

namespace keras_sparse {
namespace {

constexpr int64_t kScanChunkRows = 65536;

Status WalkLowerTier(const TierStack& tiers, size_t tier, const TakeRows& take) {
  const RowStore& store = *tiers.lower_tiers()[tier];
  for (int64_t cursor = 0; cursor >= 0;) {
    std::vector<int64_t> walked;
    std::vector<char> bytes;
    KERAS_SPARSE_RETURN_IF_ERROR(store.Walk(cursor, kScanChunkRows, &walked, &bytes, &cursor));
    // A copy left below by a failed erase is not the row.
    const std::vector<bool> above = tiers.AreAbove(tier, walked);
    std::vector<int64_t> keys;
    std::vector<const float*> records;
    for (size_t i = 0; i < walked.size(); ++i) {
      if (above[i]) continue;
      keys.push_back(walked[i]);
      const char* record = bytes.data() + static_cast<int64_t>(i) * store.record_bytes();
      records.push_back(reinterpret_cast<const float*>(record));
    }
    take(keys, records);
  }
  return Status::Ok();
}

}  // namespace

void ScanFirstTier(const TierStack& tiers, const TakeRows& take) {
  for (int64_t cursor = 0; cursor >= 0;) {
    std::vector<int64_t> keys;
    std::vector<const float*> records;
    cursor = tiers.first_tier().Walk(cursor, kScanChunkRows, &keys, &records);
    take(keys, records);
  }
}

Status ScanLowerTiers(const TierStack& tiers, const TakeRows& take) {
  for (size_t tier = 0; tier < tiers.lower_tiers().size(); ++tier) {
    KERAS_SPARSE_RETURN_IF_ERROR(WalkLowerTier(tiers, tier, take));
  }
  return Status::Ok();
}

}  // namespace keras_sparse
