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

// A lookup changes nothing; rows are created by updates and imports. A key without a row has its
// initial one all the same, unless the table has an admission filter that says otherwise.
//
// What can be done to tables is in ops/core/operations, a file a verb. Each takes the locks of its
// tables, which give it their state: shared (ReadLocks) if it changes nothing, else alone
// (WriteLocks).
//
// Thread safety: every method may be called from any thread.
class EmbeddingTable {
 public:
  // InvalidArgument or Unimplemented for options that no table can have.
  static Status Open(const TableOptions& options, Executor* executor,
                     std::unique_ptr<EmbeddingTable>* table);

  // These stay as they are.
  const TableOptions& options() const { return options_; }
  const std::string& name() const { return options_.name; }
  int64_t dim() const { return options_.output_dim; }
  // Unique among all tables of the process, ever.
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
