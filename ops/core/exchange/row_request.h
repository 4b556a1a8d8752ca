// The first half of a lookup over ranks: which rows this rank needs, and from whom.
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

// A rank asks each rank that has a part of a table for rows of its distinct ids, whatever the
// number of inputs and occurrences; of a table that counts occurrences for those of the ids'
// entries (see DistinctIds), which all get rows and gradients of their own. For an input with a
// combiner and without weights it asks for the sums of its bags instead where that takes fewer
// bytes there and back: the vectors of bags against the rows, which the gradients pass once more.
//
// A block of a request is, after its header, for each part of the rank that it goes to
//   u, s, b, p     numbers of ids, of rows wanted, of bags and of ids in bags, a word each
//   ids     (u)    of which the first s are wanted as rows; two words each
//   lengths (b)    ids of each bag
//   bags    (p)    the places of their ids among the u
// and the reply to it has, in the same order, s rows and b sums. Reply rows are numbered table by
// table, from shard to shard.
class RowRequest {
 public:
  // InvalidArgument for an id outside a static table or ill-formed bags; ResourceExhausted for more
  // words, of the request or its reply, than ranks may send: see CheckNumWords.
  // `layout` and what `inputs` point to must outlive the request.
  static Status Create(const ExchangeLayout& layout, const std::vector<RequestInput>& inputs,
                       FloatType wire_type, Executor* executor,
                       std::unique_ptr<RowRequest>* request);

  // Of the block that goes to a rank, and of its reply.
  int64_t num_words(size_t rank) const;
  int64_t num_reply_words(size_t rank) const;

  // How the reply rows of an input are used: with a combiner, bag b of its output is the sum of
  // those at [splits[b], splits[b + 1]), times scales[b]; without, each of them is a row of it.
  int64_t num_positions(size_t input) const;

  struct InputResult {
    uint32_t* positions;  // (num_positions) numbers of reply rows
    int64_t* splits;      // (num_bags + 1), null without a combiner
    float* scales;        // (num_bags), null without a combiner or with weights
  };
  struct Result {
    std::vector<Word*> blocks;  // (num_ranks) what goes to each
    std::vector<InputResult> inputs;
    int64_t* reply_rows;  // (num_tables, num_ranks): how many are of which rank's shard; row-major
  };
  void Write(const Result& result, Executor* executor) const;

 private:
  // What is asked of one shard of a table's rows.
  struct Shard {
    std::vector<int64_t> ids;  // as their rank knows them; none if they are all of the table's
    int64_t num_ids = 0;
    int64_t num_single = 0;  // wanted as rows
    int64_t first_reply_row = 0;
    std::vector<int32_t> lengths;  // of bags
    std::vector<int32_t> places;   // of the bags' ids

    int64_t num_bags() const { return static_cast<int64_t>(lengths.size()); }
    int64_t num_reply_rows() const { return num_single + num_bags(); }
    int64_t num_words() const;
  };
  struct Table {
    std::vector<size_t> inputs;       // those that are looked up in it, in the order of their ids
    std::vector<int64_t> joined_ids;  // theirs, if there are several
    const int64_t* ids = nullptr;     // (num_ids)
    int64_t num_ids = 0;
    std::vector<int64_t> entry_ids;   // in the order of DistinctIds
    std::vector<uint32_t> first_use;  // (entries) where in ids it is first
    std::vector<uint32_t> entry_of;   // (num_ids)
    std::vector<uint32_t> shard_of;   // (entries); none if there is one
    std::vector<uint32_t> place_of;   // (entries) among the ids of its shard; none if in order
    std::vector<Shard> shards;
  };
  struct Input {
    bool wants_bags = false;
    int64_t first_id = 0;  // in its table's ids
    // If it wants bags: the shard that sums each part of a bag, which of its bags that is, and
    // where the parts of each bag begin.
    std::vector<uint32_t> part_shards;
    std::vector<uint32_t> parts;
    std::vector<int64_t> splits;
  };

  RowRequest(const ExchangeLayout& layout, const std::vector<RequestInput>& inputs,
             FloatType wire_type);

  void JoinIds();
  void FindDistinct(Executor* executor);
  // These look at one table.
  void ChooseForm(size_t t);
  void AssignPlaces(size_t t);
  void AskForBags(const Table& table, size_t input, std::vector<Shard>* shards);
  // Bytes there and back of the sums of an input's bags, beyond those of the distinct ids.
  int64_t BytesOfBags(size_t t, size_t input) const;

  void WriteInput(size_t input, const InputResult& result) const;
  void WriteBlock(size_t rank, Word* block) const;

  const ExchangeLayout& layout_;
  FloatType wire_type_;
  int64_t bytes_per_float_;  // there in a row, and back in its gradient
  std::vector<RequestInput> requests_;
  std::vector<Table> tables_;
  std::vector<Input> inputs_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_EXCHANGE_ROW_REQUEST_H_
