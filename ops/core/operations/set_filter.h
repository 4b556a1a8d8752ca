// SetFilter, SetInitializer: what keys without a row read as, and which of them may get one.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_SET_FILTER_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_SET_FILTER_H_

#include <cstdint>

#include "ops/core/admission/admission_filter.h"
#include "ops/core/base/status.h"
#include "ops/core/record/initializer.h"
#include "ops/core/table/embedding_table.h"

namespace keras_sparse {

// Changes what keys without a row read as, and what ClearRows goes back to. Rows held stay.
Status SetInitializer(EmbeddingTable* table, const InitializerOptions& options);

// Gives a dynamic table an admission filter, in place of the one there may be, whose waiting keys
// are forgotten. Rows held stay; from now on updates make a row only for a key that is admitted.
// Imports ask no filter.
// Unimplemented for a static table, all of whose ids have rows.
Status SetFilter(EmbeddingTable* table, const FilterOptions& options);

// What the filter remembers, in pieces, as ExportRows gives rows. Empty for a table without one.
Status ExportFilter(const EmbeddingTable& table, int64_t cursor, int64_t max_entries,
                    FilterEntries* entries);

// Writes what ExportFilter has given, over a filter of the same kind and size. An entry of a key
// that has a row is kept and does nothing.
// FailedPrecondition if the table has no filter.
Status ImportFilter(EmbeddingTable* table, const int64_t* keys, const uint32_t* counts, int64_t n);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_SET_FILTER_H_
