// The second half of a lookup over ranks: the rows that other ranks asked this one for.
#ifndef KERAS_SPARSE_OPS_CORE_EXCHANGE_GATHERED_ROWS_H_
#define KERAS_SPARSE_OPS_CORE_EXCHANGE_GATHERED_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/exchange/exchange_layout.h"
#include "ops/core/exchange/message_format.h"
#include "ops/core/math/float_type.h"
#include "ops/core/operations/lookup.h"
#include "ops/core/table/embedding_table.h"

namespace keras_sparse {

// Reads the blocks of a RowRequest, one from each rank, and replies to them.
//
// The reply rows of an own part are numbered rank by rank, as are the ids they are sums of: row i
// is the sum of the rows of the ids [splits[i], splits[i + 1]), which is one id where a row was
// asked for. The gradients of the reply rows come back in this order.
class GatheredRows {
 public:
  // The error that a rank has sent in the place of ids; DataLoss if a block is malformed.
  // `layout` and the words of `blocks` must outlive this.
  static Status Create(const ExchangeLayout& layout, const std::vector<Block>& blocks,
                       std::unique_ptr<GatheredRows>* served);

  // Of one of the layout's own parts.
  int64_t num_ids(size_t part) const { return parts_[part].num_ids; }
  int64_t num_rows(size_t part) const { return parts_[part].num_rows; }
  // Whether all rows are those of one id each.
  bool has_bags(size_t part) const { return parts_[part].num_bags > 0; }
  // Rows for one rank.
  int64_t num_rows(size_t part, size_t rank) const { return parts_[part].asked[rank].num_rows(); }

  //   ids     (num_ids)
  //   splits  (num_rows + 1), or null
  void WriteIds(size_t part, int64_t* ids, int64_t* splits) const;

  // Floats of the reply to a rank.
  int64_t num_floats(size_t rank) const;

  // The lookups that make the reply, for LookupRowsToHost or LookupRowsFromHost: they point into
  // this and the blocks.
  //   tables       one an own part
  //   ids          one an own part, as WriteIds gives them
  //   replies      (num_ranks) where the reply to each rank goes: part by part, row by row
  //   type         of its floats
  //   versions     if not null: gets the version of each table that was read
  //   num_updates  likewise: how many updates it had had
  std::vector<LookupRequest> Lookups(const std::vector<EmbeddingTable*>& tables,
                                     const std::vector<const int64_t*>& ids,
                                     const std::vector<void*>& replies, FloatType type,
                                     std::vector<int64_t>* versions = nullptr,
                                     std::vector<uint32_t>* num_updates = nullptr) const;

 private:
  // What one rank has asked of one part.
  struct Asked {
    int64_t num_ids = 0;
    int64_t num_single = 0;
    int64_t num_bags = 0;
    int64_t num_bag_ids = 0;
    const Word* ids = nullptr;  // two words each
    const Word* lengths = nullptr;
    const Word* places = nullptr;
    std::vector<int64_t> bag_splits;  // (num_bags + 1) if there are bags

    int64_t num_rows() const { return num_single + num_bags; }
    int64_t Id(int64_t place) const;
  };
  struct OwnPart {
    std::vector<Asked> asked;  // (num_ranks)
    int64_t num_ids = 0;
    int64_t num_rows = 0;
    int64_t num_bags = 0;
  };

  explicit GatheredRows(const ExchangeLayout& layout)
      : layout_(layout), parts_(layout.own_parts().size()) {}
  Status ReadBlock(size_t rank, const Word* block, const Word* end);

  const ExchangeLayout& layout_;
  std::vector<OwnPart> parts_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_EXCHANGE_GATHERED_ROWS_H_
