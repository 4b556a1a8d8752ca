// The gradients of the rows of several tables in one buffer of 32-bit words, which ranks gather.
//
//   words of a rank         content
//   1                       number of tables
//   1 a table               its number of ids
//   2 an id                 the ids of the first table, as in memory
//   width an id             their values
//   ...                     ids and values of the other tables
//
// The buffers of all ranks are consecutive. All ranks have the same tables, in the same order;
// their numbers of ids may differ, and may be 0.
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

// Returns ResourceExhausted if a table has more ids than a word can count.
Status CountPackedWords(const std::vector<RowSlices>& tables, int64_t* num_words);

// Writes the buffer of a rank, with values multiplied by `scale`.
//   words  (num_words), as CountPackedWords returns it
void PackSlices(const std::vector<RowSlices>& tables, float scale, int32_t* words);

// Reads the buffers of all ranks, which must outlive the object.
//
// Thread safety: const methods may overlap.
class PackedSlices {
 public:
  // Returns InvalidArgument, with the rank and its data, unless the buffers are exactly those of
  // `num_ranks` ranks with tables of these widths.
  //   words   (num_words)
  //   widths  (num_tables)
  static Status Open(const int32_t* words, int64_t num_words, std::vector<int64_t> widths,
                     int64_t num_ranks, PackedSlices* slices);

  // Returns the number of ids of all ranks together.
  int64_t num_ids(size_t table) const { return num_ids_[table]; }

  // Copies all ranks' data of a table, in the order of ranks.
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
