// ExchangeLayout: which rank has which part of the tables whose rows ranks exchange.
#ifndef KERAS_SPARSE_OPS_CORE_EXCHANGE_EXCHANGE_LAYOUT_H_
#define KERAS_SPARSE_OPS_CORE_EXCHANGE_EXCHANGE_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/math/float_type.h"

namespace keras_sparse {

// One rank's part of a table: some columns of all rows, or all columns of the rank's own rows.
struct ExchangedSlice {
  int64_t rank;
  int64_t first_column;
  int64_t num_columns;
};

struct ExchangedTable {
  std::string name;        // for messages
  int64_t input_dim = -1;  // rows of a static table; -1 for a dynamic one
  int64_t dim = 0;
  // If true, an id outside a static table reads as zeros, instead of being rejected.
  bool out_of_range_is_zero = false;
  // If true, rank r has the rows of the keys with key % num_ranks == r; rows of a static table have
  // the ids key / num_ranks there. If false, ranks have columns.
  bool by_rows = false;
  // Entries per id in a request (see DistinctIds): above 1 if the table counts occurrences.
  int64_t max_entries = 1;
  FloatType row_type = FloatType::kFloat32;  // of stored rows
  std::vector<ExchangedSlice> slices;        // in the order of columns, or of ranks

  bool IsOutside(int64_t id) const {
    return input_dim >= 0 && static_cast<uint64_t>(id) >= static_cast<uint64_t>(input_dim);
  }
  // Returns InvalidArgument for the first id outside the table, unless such ids read as zeros.
  Status CheckIds(const int64_t* ids, int64_t num_ids) const;
  // Returns the number of shards of its rows: 1 unless by rows.
  size_t num_shards() const { return by_rows ? slices.size() : 1; }
  // The slices that have the rows of a shard: [first, last).
  size_t first_slice(size_t shard) const { return by_rows ? shard : 0; }
  size_t last_slice(size_t shard) const { return by_rows ? shard + 1 : slices.size(); }
};

// Equal on all ranks except for `rank`. Immutable once created.
struct ExchangeLayout {
  // One of a rank's slices.
  struct Part {
    size_t table;
    size_t slice;
  };

  // Reads the attributes of ops: names of tables, a name that no other exchange has, and
  //   num_ranks, rank, then for each table input_dim, dim, out_of_range_is_zero, by_rows,
  //   max_entries, the number of slices, and for each of these rank and num_columns
  // and the types of the tables' rows, of which an empty list means float32.
  // Returns InvalidArgument unless these are consistent.
  static Status Read(const std::vector<int64_t>& numbers, const std::vector<std::string>& names,
                     const std::string& exchange, const std::vector<FloatType>& row_types,
                     ExchangeLayout* layout);

  size_t num_ranks = 1;
  size_t rank = 0;
  std::vector<ExchangedTable> tables;
  // For each rank its parts, in the order of tables: the order of all data sent to it or by it.
  std::vector<std::vector<Part>> parts_of_rank;
  // Equal on ranks that have created the same layout for the same exchange. Outside of a graph,
  // Horovod does not know exchanges by name and cannot tell two of them apart.
  uint32_t checksum = 0;

  const std::vector<Part>& own_parts() const { return parts_of_rank[rank]; }
  const ExchangedSlice& slice(const Part& part) const {
    return tables[part.table].slices[part.slice];
  }
  // Returns the shard of its table whose rows a part has.
  size_t shard(const Part& part) const { return tables[part.table].by_rows ? part.slice : 0; }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_EXCHANGE_EXCHANGE_LAYOUT_H_
