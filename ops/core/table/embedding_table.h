// EmbeddingTable: the rows of one table shard, with their optimizer slots.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_EMBEDDING_TABLE_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_EMBEDDING_TABLE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/table/output_bytes.h"
#include "ops/core/table/table_mutex.h"
#include "ops/core/table/table_options.h"
#include "ops/core/table/table_state.h"

namespace keras_sparse {

// Lookups change nothing; updates and imports create rows. A key without a row reads as its initial
// row, unless the table's admission filter has other default rows.
//
// The operations on tables are in ops/core/operations, one verb per file. Each operation locks its
// tables and accesses their state through the locks: ReadLocks (shared) if it changes nothing, else
// WriteLocks (exclusive).
//
// Thread safety: every method may be called from any thread.
class EmbeddingTable {
 public:
  // Returns InvalidArgument or Unimplemented if no table can have these options.
  static Status Open(const TableOptions& options, Executor* executor,
                     std::unique_ptr<EmbeddingTable>* table);

  // Constant for the life of the table.
  const TableOptions& options() const { return options_; }
  const std::string& name() const { return options_.name; }
  int64_t dim() const { return options_.output_dim; }
  // Unique among all tables that the process ever opens.
  uint64_t number() const { return number_; }

  OutputBytes& output_bytes() { return output_bytes_; }

 private:
  friend class ReadLocks;
  friend class WriteLocks;

  explicit EmbeddingTable(const TableOptions& options);

  const TableOptions options_;
  const uint64_t number_;
  OutputBytes output_bytes_;
  mutable TableMutex mutex_;
  TableState state_ GUARDED_BY(mutex_);
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_EMBEDDING_TABLE_H_
