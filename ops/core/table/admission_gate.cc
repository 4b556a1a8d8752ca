// EmbeddingTable: its admission filter.
#include <algorithm>
#include <utility>

#include "ops/core/table/embedding_table.h"

namespace keras_sparse {

Status EmbeddingTable::SetFilter(const FilterOptions& options) {
  if (!is_dynamic()) {
    return Status(StatusCode::kUnimplemented,
                  "an admission filter must be that of a dynamic table: all ids of a static one "
                  "have rows. Give table '" +
                      name() +
                      "' input_dim=None. Received: input_dim=" + std::to_string(input_dim()));
  }
  std::unique_ptr<AdmissionFilter> filter;
  KERAS_SPARSE_RETURN_IF_ERROR(AdmissionFilter::Create(options, &filter));
  std::unique_ptr<Initializer> default_rows;
  if (!options.reads_initial_rows) {
    KERAS_SPARSE_RETURN_IF_ERROR(
        Initializer::Create({"constant", options.default_value}, &default_rows));
  }
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  ++state_.version;
  state_.filter = std::move(filter);
  state_.default_rows = std::move(default_rows);
  return Status::Ok();
}

Status EmbeddingTable::ImportFilter(const int64_t* keys, const uint32_t* counts, int64_t n) {
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  if (state_.filter == nullptr) {
    return FailedPrecondition("table '" + name() +
                              "' must have an admission filter to take what one remembers");
  }
  ++state_.version;
  return state_.filter->Restore(keys, counts, n);
}

int EmbeddingTable::max_partition_bits() const {
  const int bits = state_.tiers.first_tier().max_partition_bits();
  return state_.filter == nullptr ? bits : std::min(bits, state_.filter->max_partition_bits());
}

}  // namespace keras_sparse
