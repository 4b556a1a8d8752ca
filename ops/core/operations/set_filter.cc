#include "ops/core/operations/set_filter.h"

#include <memory>
#include <string>
#include <utility>

#include "ops/core/table/table_cursor.h"
#include "ops/core/table/table_locks.h"

namespace keras_sparse {

Status SetInitializer(EmbeddingTable* table, const InitializerOptions& options) {
  std::unique_ptr<Initializer> created;
  KERAS_SPARSE_RETURN_IF_ERROR(Initializer::Create(options, &created));
  const WriteLocks locks({table});
  ++locks[0].version;
  locks[0].gate.SetInitializer(std::move(created));
  return Status::Ok();
}

Status SetFilter(EmbeddingTable* table, const FilterOptions& options) {
  if (!table->options().is_dynamic()) {
    return Status(StatusCode::kUnimplemented,
                  "an admission filter must be that of a dynamic table: all ids of a static one "
                  "have rows. Give table '" +
                      table->name() + "' input_dim=None. Received: input_dim=" +
                      std::to_string(table->options().input_dim));
  }
  std::unique_ptr<AdmissionFilter> filter;
  KERAS_SPARSE_RETURN_IF_ERROR(AdmissionFilter::Create(options, &filter));
  std::unique_ptr<Initializer> default_rows;
  if (!options.reads_initial_rows) {
    KERAS_SPARSE_RETURN_IF_ERROR(
        Initializer::Create({"constant", options.default_value}, &default_rows));
  }
  const WriteLocks locks({table});
  ++locks[0].version;
  locks[0].gate.SetFilter(std::move(filter), std::move(default_rows));
  return Status::Ok();
}

Status ExportFilter(const EmbeddingTable& table, int64_t cursor, int64_t max_entries,
                    FilterEntries* entries) {
  const ReadLocks locks({&table});
  const TableState& state = locks[0];
  *entries = FilterEntries();
  if (cursor == -1 || state.gate.filter() == nullptr) return Status::Ok();
  KERAS_SPARSE_RETURN_IF_ERROR(state.CheckCursor(cursor));
  // A filter has no tiers, so its own cursor may use their bits too.
  state.gate.filter()->Walk(cursor & ((int64_t{1} << kCursorVersionShift) - 1), max_entries,
                            entries);
  if (entries->next_cursor >= 0) {
    entries->next_cursor = MakeCursor(state.version, 0, entries->next_cursor);
  }
  return Status::Ok();
}

Status ImportFilter(EmbeddingTable* table, const int64_t* keys, const uint32_t* counts, int64_t n) {
  const WriteLocks locks({table});
  TableState& state = locks[0];
  if (state.gate.filter() == nullptr) {
    return FailedPrecondition("table '" + table->name() +
                              "' must have an admission filter to take what one remembers");
  }
  ++state.version;
  return state.gate.filter()->Restore(keys, counts, n);
}

}  // namespace keras_sparse
