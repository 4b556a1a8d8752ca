// RowRequest: the first half of a lookup over ranks, which decides which rows to request from which
// rank.
#ifndef KERAS_SPARSE_OPS_CORE_EXCHANGE_ROW_REQUEST_H_
#define KERAS_SPARSE_OPS_CORE_EXCHANGE_ROW_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/exchange/exchange_layout.h"
#include "ops/core/exchange/message_format.h"
#include "ops/core/ids/bags.h"
#include "ops/core/math/float_type.h"

namespace keras_sparse {

// The ids of one input of the layer.
struct RequestInput {
  size_t table;
  const int64_t* ids;  // (bags.num_ids)
  Bags bags;
};

// A rank requests the rows of its distinct ids from each rank that has a part of a table. The
// numbers of inputs and occurrences do not matter. If a table counts occurrences, the rank requests
// rows for all entries of the ids (see DistinctIds); each entry gets a row and a gradient of its
// own. For an input with a combiner and without weights, it requests the sums of the bags instead
// if this needs fewer bytes in both directions: the vectors of bags, compared with the rows and
// their gradients.
//
// The block of a request has, after its header, for each part of the rank that receives it
//   u, s, b, p     numbers of ids, of rows requested, of bags and of ids in bags, one word each
//   ids     (u)    the first s are requested as rows; two words each
//   lengths (b)    number of ids of each bag
//   bags    (p)    positions of their ids among the u
// The reply has, in the same order, s rows and b sums: see ReplyFormat. Reply rows are numbered
// table by table, and within a table shard by shard.
class RowRequest {
 public:
  // Returns InvalidArgument for an id outside a static table or ill-formed bags. Returns
  // ResourceExhausted for more words, of the request, its reply or gradients, than ranks may send:
  // see CheckNumWords. `layout` and the buffers of `inputs` must outlive the request.
  static Status Create(const ExchangeLayout& layout, const std::vector<RequestInput>& inputs,
                       FloatType wire_type, Executor* executor,
                       std::unique_ptr<RowRequest>* request);

  // Words of the block for a rank, of its reply, and of the gradients of the reply.
  int64_t num_words(size_t rank) const;
  int64_t num_reply_words(size_t rank) const;
  int64_t num_gradient_words(size_t rank) const;

  // How an input uses the reply rows. With a combiner, bag b of its output is the sum of the rows
  // at [splits[b], splits[b + 1]), times scales[b]; without one, each position is a row of its
  // output.
  int64_t num_positions(size_t input) const;

  struct InputResult {
    uint32_t* positions;  // (num_positions) numbers of reply rows
    int64_t* splits;      // (num_bags + 1), null without a combiner
    float* scales;        // (num_bags), null without a combiner or with weights
  };
  struct Result {
    std::vector<Word*> blocks;  // (num_ranks) the block for each rank
    std::vector<InputResult> inputs;
    // (2, num_tables, num_ranks): the numbers of reply rows of each rank's shard, and how many of
    // them are rows of one id; row-major.
    int64_t* reply_rows;
  };
  void Write(const Result& result, Executor* executor) const;

 private:
  // The request for one shard of a table's rows.
  struct Shard {
    std::vector<int64_t> ids;  // as their rank knows them; empty if they are all of the table's ids
    int64_t num_ids = 0;
    int64_t num_single = 0;  // requested as rows
    int64_t first_reply_row = 0;
    std::vector<int32_t> lengths;  // of bags
    std::vector<int32_t> places;   // of the bags' ids

    int64_t num_bags() const { return static_cast<int64_t>(lengths.size()); }
    int64_t num_reply_rows() const { return num_single + num_bags(); }
    int64_t num_words() const;
  };
  struct Table {
    std::vector<size_t> inputs;       // inputs that are looked up in it, in the order of their ids
    std::vector<int64_t> joined_ids;  // their ids, if there are several
    const int64_t* ids = nullptr;     // (num_ids)
    int64_t num_ids = 0;
    std::vector<int64_t> entry_ids;   // in the order of DistinctIds
    std::vector<uint32_t> first_use;  // (entries) first position in ids
    std::vector<uint32_t> entry_of;   // (num_ids)
    std::vector<uint32_t> shard_of;   // (entries); empty for a single shard
    std::vector<uint32_t> place_of;   // (entries) position in the shard's ids; empty if in order
    std::vector<Shard> shards;
  };
  struct Input {
    bool wants_bags = false;
    int64_t first_id = 0;  // in its table's ids
    // If the input requests bags: the shard that sums each part of a bag, the part's number among
    // the shard's bags, and the start of each bag's parts.
    std::vector<uint32_t> part_shards;
    std::vector<uint32_t> parts;
    std::vector<int64_t> splits;
  };

  RowRequest(const ExchangeLayout& layout, const std::vector<RequestInput>& inputs,
             FloatType wire_type);

  void JoinIds();
  void FindDistinct(Executor* executor);
  // Each of these handles one table.
  void ChooseForm(size_t t);
  void AssignPlaces(size_t t);
  void AskForBags(const Table& table, size_t input, std::vector<Shard>* shards);
  // Returns the bytes, in both directions, of the sums of an input's bags, beyond those of the
  // distinct ids.
  int64_t BytesOfBags(size_t t, size_t input) const;

  void WriteInput(size_t input, const InputResult& result) const;
  void WriteBlock(size_t rank, Word* block) const;

  const ExchangeLayout& layout_;
  FloatType wire_type_;
  std::vector<RequestInput> requests_;
  std::vector<Table> tables_;
  std::vector<Input> inputs_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_EXCHANGE_ROW_REQUEST_H_
