// Which rank has what of the tables that ranks exchange rows of.
#ifndef KERAS_SPARSE_OPS_CORE_EXCHANGE_EXCHANGE_LAYOUT_H_
#define KERAS_SPARSE_OPS_CORE_EXCHANGE_EXCHANGE_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ops/core/base/status.h"

namespace keras_sparse {

// What one rank has of a table: columns of all rows, or all columns of the rows that are its own.
struct ExchangedSlice {
  int64_t rank;
  int64_t first_column;
  int64_t num_columns;
};

struct ExchangedTable {
  std::string name;        // for messages
  int64_t input_dim = -1;  // rows of a static table; -1 for a dynamic one
  int64_t dim = 0;
  // An id outside a static table reads as zeros, instead of being refused.
  bool out_of_range_is_zero = false;
  // Rank r has the rows of the keys with key % num_ranks == r; those of a static table under the
  // ids key / num_ranks. Otherwise ranks have columns.
  bool by_rows = false;
  // Of an id in a request (see DistinctIds): above 1 where the table counts occurrences.
  int64_t max_entries = 1;
  std::vector<ExchangedSlice> slices;  // in the order of columns, or of ranks

  bool IsOutside(int64_t id) const {
    return input_dim >= 0 && static_cast<uint64_t>(id) >= static_cast<uint64_t>(input_dim);
  }
  // InvalidArgument for the first id outside of it, where that is refused.
  Status CheckIds(const int64_t* ids, int64_t num_ids) const;
  // In how many shards its rows are: 1 unless by rows.
  size_t num_shards() const { return by_rows ? slices.size() : 1; }
  // The slices that have the rows of a shard: [first, last).
  size_t first_slice(size_t shard) const { return by_rows ? shard : 0; }
  size_t last_slice(size_t shard) const { return by_rows ? shard + 1 : slices.size(); }
};

// The same on every rank but for `rank`. Immutable once made.
struct ExchangeLayout {
  // One of a rank's slices.
  struct Part {
    size_t table;
    size_t slice;
  };

  // Reads what ops take as attributes: names of tables, a name that no other exchange has, and
  //   num_ranks, rank, then for each table input_dim, dim, out_of_range_is_zero, by_rows,
  //   max_entries, the number of slices, and for each of these rank and num_columns
  // InvalidArgument unless that makes sense.
  static Status Read(const std::vector<int64_t>& numbers, const std::vector<std::string>& names,
                     const std::string& exchange, ExchangeLayout* layout);

  size_t num_ranks = 1;
  size_t rank = 0;
  std::vector<ExchangedTable> tables;
  // For each rank what it has, in the order of tables: the order of everything that is sent to it
  // or that it sends.
  std::vector<std::vector<Part>> parts_of_rank;
  // Equal on ranks that have made the same layout for the same exchange: Horovod alone does not
  // keep two exchanges apart outside of a graph, where it knows them by no name.
  uint32_t checksum = 0;

  const std::vector<Part>& own_parts() const { return parts_of_rank[rank]; }
  const ExchangedSlice& slice(const Part& part) const {
    return tables[part.table].slices[part.slice];
  }
  // The shard of its table that a part has the rows of.
  size_t shard(const Part& part) const { return tables[part.table].by_rows ? part.slice : 0; }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_EXCHANGE_EXCHANGE_LAYOUT_H_
