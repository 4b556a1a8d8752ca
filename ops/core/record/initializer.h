// Initializer: computes the initial row of a key as a pure function of (seed, key). The row needs
// no storage and does not depend on ranks, threads, order of arrival or evictions.
#ifndef KERAS_SPARSE_OPS_CORE_RECORD_INITIALIZER_H_
#define KERAS_SPARSE_OPS_CORE_RECORD_INITIALIZER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "ops/core/base/status.h"
#include "ops/core/record/initial_rows.h"
#include "ops/core/record/record_layout.h"

namespace keras_sparse {

// kind                 a        b        element
// "constant"           value    unused   value
// "uniform"            minval   maxval   uniform in [minval, maxval)
// "normal"             mean     stddev   normal
// "truncated_normal"   mean     stddev   normal, cut to two stddev either side of the mean
struct InitializerOptions {
  std::string kind = "constant";
  float a = 0;
  float b = 0;
  int64_t seed = 0;
  // For a table that holds a part of a whole table: the row of `key` here is the columns from
  // first_column on of the whole table's row of key * key_stride + key_offset (modulo 2^64).
  int64_t first_column = 0;
  int64_t key_stride = 1;
  int64_t key_offset = 0;
};

// Element j of the whole table's row of `key` is computed from word j % 4 of
//   Philox(counter = (j / 4, 0, low word of key, high word of key), key = (low, high word of
//   seed)).
// Thread safety: immutable.
class Initializer {
 public:
  // Returns InvalidArgument for an unknown kind, or for a part that no table can have.
  static Status Create(const InitializerOptions& options,
                       std::unique_ptr<Initializer>* initializer);

  //   row  (dim)
  void Fill(int64_t key, int64_t dim, float* row) const { rows_.Fill(key, 0, dim, row); }

  // Stores the row in a record.
  void FillRecord(const RecordLayout& layout, int64_t key, float* record) const;

  // Returns the initializer as plain numbers, for a GPU.
  const InitialRows& rows() const { return rows_; }

 private:
  explicit Initializer(const InitialRows& rows) : rows_(rows) {}

  InitialRows rows_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_RECORD_INITIALIZER_H_
