#include "ops/core/table/table_locks.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace keras_sparse {
namespace {

// Sorts tables by address, each once; any order works that all ops share. The holder of a table's
// lock may take the locks of the table's parts (staged records, a store's queue), never the
// reverse.
template <typename Table>
std::vector<Table*> InOneOrder(std::vector<Table*> tables) {
  std::sort(tables.begin(), tables.end(), std::less<>());
  tables.erase(std::unique(tables.begin(), tables.end()), tables.end());
  return tables;
}

}  // namespace

ReadLocks::ReadLocks(std::vector<const EmbeddingTable*> tables)
    : tables_(std::move(tables)), locked_(InOneOrder(tables_)) {
  for (const EmbeddingTable* table : locked_) table->mutex_.lock_shared();
}

ReadLocks::~ReadLocks() {
  for (const EmbeddingTable* table : locked_) table->mutex_.unlock_shared();
}

WriteLocks::WriteLocks(std::vector<EmbeddingTable*> tables)
    : tables_(std::move(tables)), locked_(InOneOrder(tables_)) {
  for (EmbeddingTable* table : locked_) table->mutex_.lock();
}

WriteLocks::~WriteLocks() {
  for (EmbeddingTable* table : locked_) table->mutex_.unlock();
}

}  // namespace keras_sparse
