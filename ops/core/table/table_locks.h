// ReadLocks and WriteLocks: the locks of the tables of an op, which give what they guard.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_TABLE_LOCKS_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_TABLE_LOCKS_H_

#include <cstddef>
#include <vector>

#include "ops/core/table/embedding_table.h"
#include "ops/core/table/table_state.h"

namespace keras_sparse {

// Both lock each table once and all in one order, so that ops over the same tables cannot wait for
// each other in a circle. They are taken on the calling thread only, never inside a loop of the
// executor.

// Others may read at the same time.
class ReadLocks {
 public:
  explicit ReadLocks(std::vector<const EmbeddingTable*> tables);
  ~ReadLocks();
  ReadLocks(const ReadLocks&) = delete;
  ReadLocks& operator=(const ReadLocks&) = delete;

  // Of the table that was named in this place.
  const TableState& operator[](size_t i) const NO_THREAD_SAFETY_ANALYSIS {
    return tables_[i]->state_;
  }

 private:
  const std::vector<const EmbeddingTable*> tables_;  // as they were named
  const std::vector<const EmbeddingTable*> locked_;
};

// No other op has the tables.
class WriteLocks {
 public:
  explicit WriteLocks(std::vector<EmbeddingTable*> tables);
  ~WriteLocks();
  WriteLocks(const WriteLocks&) = delete;
  WriteLocks& operator=(const WriteLocks&) = delete;

  // Of the table that was named in this place.
  TableState& operator[](size_t i) const NO_THREAD_SAFETY_ANALYSIS { return tables_[i]->state_; }
  // Whether a table was named twice.
  bool has_repeats() const { return locked_.size() < tables_.size(); }

 private:
  const std::vector<EmbeddingTable*> tables_;  // as they were named
  const std::vector<EmbeddingTable*> locked_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_TABLE_LOCKS_H_
