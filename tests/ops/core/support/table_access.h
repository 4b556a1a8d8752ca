// What only tests ask of a table, or do to it.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_TABLE_ACCESS_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_TABLE_ACCESS_H_

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "ops/core/base/bytes.h"
#include "ops/core/base/status.h"
#include "ops/core/stores/row_store.h"
#include "ops/core/table/embedding_table.h"
#include "ops/core/table/table_locks.h"

namespace keras_sparse {

// Puts a store that the test can see below the tiers there are.
inline Status AddLowerTier(EmbeddingTable* table, std::unique_ptr<RowStore> store) {
  const WriteLocks locks({table});
  return locks[0].tiers.AddLowerTier(std::move(store), locks[0].layout().record_bytes());
}

// Moves the rows of these keys from the first tier to the next one.
// FailedPrecondition if there is no lower tier.
inline Status Demote(EmbeddingTable* table, const int64_t* keys, int64_t n) {
  const WriteLocks locks({table});
  TableState& state = locks[0];
  if (state.tiers.lower_tiers().empty()) {
    return FailedPrecondition("table '" + table->name() +
                              "' must have a lower tier to demote rows to");
  }
  FirstTier& tier = state.tiers.first_tier();
  const auto record_bytes = static_cast<size_t>(state.layout().record_bytes());
  std::vector<int64_t> held;
  std::unique_ptr<char[]> records;
  KERAS_SPARSE_RETURN_IF_ERROR(AllocateBytes(n * static_cast<int64_t>(record_bytes), &records));
  for (int64_t i = 0; i < n; ++i) {
    float* record = nullptr;
    tier.Find(keys + i, 1, &record);
    if (record == nullptr) continue;
    std::memcpy(records.get() + held.size() * record_bytes, record, record_bytes);
    held.push_back(keys[i]);
  }
  ++state.version;
  // Erased above only once it is safe below.
  KERAS_SPARSE_RETURN_IF_ERROR(state.tiers.PutBelow(held, std::move(records)));
  for (const int64_t key : held) tier.Erase(key);
  return Status::Ok();
}
inline Status Demote(EmbeddingTable* table, const std::vector<int64_t>& keys) {
  return Demote(table, keys.data(), static_cast<int64_t>(keys.size()));
}

// Bytes of everything that the first tier holds, and how many of these keys have their row there.
inline int64_t FirstTierBytes(const EmbeddingTable& table) {
  const ReadLocks locks({&table});
  return locks[0].tiers.first_tier().bytes();
}
inline int64_t CountInFirstTier(const EmbeddingTable& table, const int64_t* keys, int64_t n) {
  const ReadLocks locks({&table});
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) count += locks[0].tiers.IsInFirstTier(keys[i]) ? 1 : 0;
  return count;
}

inline int64_t VersionOf(const EmbeddingTable& table) {
  const ReadLocks locks({&table});
  return locks[0].version;
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_TABLE_ACCESS_H_
