// SetFilter, SetInitializer: the values of keys without a row, and the filter that admits keys.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_SET_FILTER_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_SET_FILTER_H_

#include <cstdint>

#include "ops/core/admission/admission_filter.h"
#include "ops/core/base/status.h"
#include "ops/core/record/initializer.h"
#include "ops/core/table/embedding_table.h"

namespace keras_sparse {

// Changes the values of keys without a row, and the rows that ClearRows restores. Existing rows
// stay.
Status SetInitializer(EmbeddingTable* table, const InitializerOptions& options);

// Sets the admission filter of a dynamic table; the waiting keys of the previous filter are
// dropped. Existing rows stay; from now on updates create rows only for keys that the filter
// admits. Imports do not ask the filter. Returns Unimplemented for a static table, in which all ids
// have rows.
Status SetFilter(EmbeddingTable* table, const FilterOptions& options);

// Exports the filter's entries in chunks, as ExportRows does. Empty for a table without a filter.
Status ExportFilter(const EmbeddingTable& table, int64_t cursor, int64_t max_entries,
                    FilterEntries* entries);

// Writes the entries of ExportFilter into a filter of the same kind and size. An entry of a key
// that has a row is kept but has no effect. Returns FailedPrecondition if the table has no filter.
Status ImportFilter(EmbeddingTable* table, const int64_t* keys, const uint32_t* counts, int64_t n);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_SET_FILTER_H_
