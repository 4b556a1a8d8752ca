// GatheredRows: the second half of a lookup over ranks, which looks up the rows that other ranks
// request.
#ifndef KERAS_SPARSE_OPS_CORE_EXCHANGE_GATHERED_ROWS_H_
#define KERAS_SPARSE_OPS_CORE_EXCHANGE_GATHERED_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/exchange/exchange_layout.h"
#include "ops/core/exchange/message_format.h"
#include "ops/core/exchange/reply_format.h"
#include "ops/core/math/float_type.h"
#include "ops/core/operations/lookup.h"
#include "ops/core/table/embedding_table.h"

namespace keras_sparse {

// Reads the blocks of a RowRequest, one from each rank, and replies to them.
//
// The reply rows of an own part are numbered rank by rank, as are their ids: row i is the sum of
// the rows of the ids [splits[i], splits[i + 1]), which is one id if a row was requested. The
// gradients of the reply rows come back in this order.
class GatheredRows {
 public:
  // Returns the error that a rank has sent in place of ids; DataLoss if a block is malformed.
  // `layout` and the words of `blocks` must outlive the object.
  static Status Create(const ExchangeLayout& layout, const std::vector<Block>& blocks,
                       std::unique_ptr<GatheredRows>* served);

  // `part` is one of the layout's own parts.
  int64_t num_ids(size_t part) const { return parts_[part].num_ids; }
  int64_t num_rows(size_t part) const { return parts_[part].num_rows; }
  // Returns whether some rows are sums, rather than rows of one id each.
  bool has_bags(size_t part) const { return parts_[part].num_bags > 0; }
  // Returns the number of rows for one rank.
  int64_t num_rows(size_t part, size_t rank) const { return parts_[part].asked[rank].num_rows(); }

  //   ids     (num_ids)
  //   splits  (num_rows + 1), or null
  void WriteIds(size_t part, int64_t* ids, int64_t* splits) const;

  // Returns the number of words in the reply to a rank, after the header.
  int64_t num_words(size_t rank, FloatType wire_type) const;
  // Returns the number of floats in the reply to a rank, and in its gradients.
  int64_t num_floats(size_t rank) const;

  // Returns the lookups that compute the replies, for LookupRowsToHost or LookupRowsFromHost. They
  // refer to this object and the blocks.
  //   tables       one per own part
  //   ids          one per own part, as WriteIds returns them
  //   replies      (num_ranks) the words of each rank's reply: part by part, see ReplyFormat. An
  //                odd number of 16-bit floats leaves the end of its last word as it was
  //   versions     if not null: receives the version of each table that was read
  //   num_updates  if not null: receives the number of updates of each table
  std::vector<LookupRequest> Lookups(const std::vector<EmbeddingTable*>& tables,
                                     const std::vector<const int64_t*>& ids,
                                     const std::vector<Word*>& replies, FloatType wire_type,
                                     std::vector<int64_t>* versions = nullptr,
                                     std::vector<uint32_t>* num_updates = nullptr) const;

 private:
  // One rank's request for one part.
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

  ReplyFormat FormatOf(size_t part, FloatType wire_type) const {
    const ExchangeLayout::Part& own = layout_.own_parts()[part];
    return {layout_.tables[own.table], layout_.slice(own).num_columns, wire_type};
  }

  explicit GatheredRows(const ExchangeLayout& layout)
      : layout_(layout), parts_(layout.own_parts().size()) {}
  Status ReadBlock(size_t rank, const Word* block, const Word* end);

  const ExchangeLayout& layout_;
  std::vector<OwnPart> parts_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_EXCHANGE_GATHERED_ROWS_H_
