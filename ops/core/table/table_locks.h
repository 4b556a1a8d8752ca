// ReadLocks and WriteLocks: lock the tables of an op and give access to their state.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_TABLE_LOCKS_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_TABLE_LOCKS_H_

#include <cstddef>
#include <vector>

#include "ops/core/table/embedding_table.h"
#include "ops/core/table/table_state.h"

namespace keras_sparse {

// Both lock each table once, all in the same order, so that ops over the same tables cannot
// deadlock. Locks are taken on the calling thread only, never inside a loop of the executor.

// Shared locks: other readers may overlap.
class ReadLocks {
 public:
  explicit ReadLocks(std::vector<const EmbeddingTable*> tables);
  ~ReadLocks();
  ReadLocks(const ReadLocks&) = delete;
  ReadLocks& operator=(const ReadLocks&) = delete;

  // Returns the state of table `i` of the constructor's list.
  const TableState& operator[](size_t i) const NO_THREAD_SAFETY_ANALYSIS {
    return tables_[i]->state_;
  }

 private:
  const std::vector<const EmbeddingTable*> tables_;  // in the constructor's order
  const std::vector<const EmbeddingTable*> locked_;
};

// Exclusive locks: no other op uses the tables.
class WriteLocks {
 public:
  explicit WriteLocks(std::vector<EmbeddingTable*> tables);
  ~WriteLocks();
  WriteLocks(const WriteLocks&) = delete;
  WriteLocks& operator=(const WriteLocks&) = delete;

  // Returns the state of table `i` of the constructor's list.
  TableState& operator[](size_t i) const NO_THREAD_SAFETY_ANALYSIS { return tables_[i]->state_; }
  // Returns whether a table was passed twice.
  bool has_repeats() const { return locked_.size() < tables_.size(); }

 private:
  const std::vector<EmbeddingTable*> tables_;  // in the constructor's order
  const std::vector<EmbeddingTable*> locked_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_TABLE_LOCKS_H_
