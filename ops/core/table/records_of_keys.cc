#include "ops/core/table/records_of_keys.h"

#include <algorithm>

#include "ops/core/base/hash.h"
#include "ops/core/base/wait_timer.h"
#include "ops/core/index/hash_index.h"
#include "ops/core/math/prefetch.h"

namespace keras_sparse {

Status RecordsOfKeys::Read(const TierStack& tiers, const std::vector<int64_t>& keys,
                           RecordsOfKeys* records) {
  *records = RecordsOfKeys();
  records->records_.resize(keys.size());
  const FirstTier& tier = tiers.first_tier();
  const auto n = static_cast<int64_t>(keys.size());
  for (int64_t begin = 0; begin < n; begin += kBlockRows) {
    const int64_t end = std::min(n, begin + kBlockRows);
    tier.PrefetchIndex(keys.data() + end, std::min(kBlockRows, n - end));
    tier.Find(keys.data() + begin, end - begin, records->records_.data() + begin);
  }
  std::vector<int64_t> missing;
  HashIndex places(0);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (records->records_[i] != nullptr || tiers.lower_tiers().empty()) continue;
    missing.push_back(keys[i]);
    places.Insert(HashKey(keys[i]), keys[i], static_cast<uint32_t>(i));
  }
  if (missing.empty()) return Status::Ok();
  const WaitTimer timer(tiers.waited_ns());
  KERAS_SPARSE_RETURN_IF_ERROR(RecordBatch::Read(tiers.lower_tiers(), missing, &records->below_));
  for (size_t i = 0; i < records->below_->size(); ++i) {
    const int64_t key = records->below_->keys()[i];
    records->records_[places.Find(HashKey(key), key)] =
        const_cast<float*>(records->below_->record(i));
  }
  return Status::Ok();
}

}  // namespace keras_sparse
