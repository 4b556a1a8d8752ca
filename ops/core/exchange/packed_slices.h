// The gradients of the rows of several tables in one buffer of 32-bit words, which ranks gather.
//
//   words of a rank         what
//   1                       number of tables
//   1 a table               its number of ids
//   2 an id                 the ids of the first table, as in memory
//   width an id             their values
//   ...                     ids and values of the other tables
//
// The buffers of all ranks stand one behind the other. All ranks have the same tables, in the same
// order; how many ids they have of each may differ, and may be none.
#ifndef KERAS_SPARSE_OPS_CORE_EXCHANGE_PACKED_SLICES_H_
#define KERAS_SPARSE_OPS_CORE_EXCHANGE_PACKED_SLICES_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/status.h"

namespace keras_sparse {

// The gradient of some rows of a table.
//   ids     (num_ids)
//   values  (num_ids, width)
struct RowSlices {
  const int64_t* ids = nullptr;
  const float* values = nullptr;
  int64_t num_ids = 0;
  int64_t width = 1;
};

// ResourceExhausted if a table has more ids than a word can count.
Status CountPackedWords(const std::vector<RowSlices>& tables, int64_t* num_words);

// Writes the buffer of a rank, with `scale` times the values.
//   words  (num_words), as CountPackedWords gives it
void PackSlices(const std::vector<RowSlices>& tables, float scale, int32_t* words);

// The buffers of all ranks, read. Refers to them: they must outlive it.
//
// Thread safety: const methods may overlap.
class PackedSlices {
 public:
  // InvalidArgument, with the rank and what it sent, unless the buffers are those of `num_ranks`
  // ranks with tables of these widths, and nothing else.
  //   words   (num_words)
  //   widths  (num_tables)
  static Status Open(const int32_t* words, int64_t num_words, std::vector<int64_t> widths,
                     int64_t num_ranks, PackedSlices* slices);

  // Of all ranks together.
  int64_t num_ids(size_t table) const { return num_ids_[table]; }

  // Copies what the ranks have of a table, in their order.
  //   ids     (num_ids)
  //   values  (num_ids, width)
  void Copy(size_t table, int64_t* ids, float* values) const;

 private:
  struct Piece {
    const int32_t* words;  // the ids, then the values
    int64_t num_ids;
  };

  Status ReadRank(int64_t rank, const int32_t** words, int64_t* num_words);

  std::vector<int64_t> widths_;
  std::vector<int64_t> num_ids_;            // of each table
  std::vector<std::vector<Piece>> pieces_;  // of each table, by rank
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_EXCHANGE_PACKED_SLICES_H_
