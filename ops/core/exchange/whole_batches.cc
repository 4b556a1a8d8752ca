#include "ops/core/exchange/whole_batches.h"

#include <algorithm>
#include <limits>
#include <string>

#include "ops/core/exchange/wire_dtype.h"

namespace keras_sparse {

Status CheckOwnBatch(const ExchangeLayout& layout, const std::vector<int64_t>& num_samples,
                     FloatType wire_type) {
  if (num_samples.empty()) return Status::Ok();
  const auto [least, most] = std::minmax_element(num_samples.begin(), num_samples.end());
  if (*least != *most) {
    return InvalidArgument("every input of a whole batch must have as many samples. Received: " +
                           std::to_string(*least) + " of one input and " + std::to_string(*most) +
                           " of another one");
  }
  const auto num_ranks = static_cast<int64_t>(layout.num_ranks);
  std::vector<int64_t> words;  // of one block of each rank
  int64_t of_all = 0;
  for (const std::vector<ExchangeLayout::Part>& parts : layout.parts_of_rank) {
    words.push_back(kHeaderWords);
    for (const ExchangeLayout::Part& part : parts) {
      words.back() += FloatWords(wire_type, layout.slice(part).num_columns * (*least / num_ranks));
    }
    of_all += words.back();
  }
  const auto [fewest, largest] = std::minmax_element(words.begin(), words.end());
  const int64_t num_words = std::max(*largest * (num_ranks - 1), of_all - *fewest);
  if (num_words <= std::numeric_limits<int32_t>::max()) return Status::Ok();
  return ResourceExhausted(TooManyWords(num_words));
}

Status CheckWholeBatches(const ExchangeLayout& layout, const std::vector<Block>& blocks,
                         int64_t* num_own_samples) {
  KERAS_SPARSE_RETURN_IF_ERROR(CheckBlocks(layout, blocks));
  size_t first = layout.num_ranks;  // first rank with a batch
  int64_t num_samples = 0;
  for (size_t r = 0; r < layout.num_ranks; ++r) {
    if (layout.parts_of_rank[r].empty()) continue;
    const int64_t of_rank = ReadBatchSize(blocks[r].words);
    if (first == layout.num_ranks) {
      first = r;
      num_samples = of_rank;
    }
    if (of_rank == num_samples) continue;
    return InvalidArgument(
        RankPrefix(layout, r) +
        "with dp_input=False every rank must pass all samples of the same batch. Received: " +
        std::to_string(of_rank) + " samples, and " + std::to_string(num_samples) + " on rank " +
        std::to_string(first));
  }
  const auto num_ranks = static_cast<int64_t>(layout.num_ranks);
  if (num_samples < 0 || num_samples % num_ranks != 0) {
    return InvalidArgument(RankPrefix(layout, first) +
                           "The batch of dp_input=False is not divisible by " +
                           std::to_string(num_ranks) +
                           ", the number of ranks. Drop what is left over, or pad it. Received: " +
                           std::to_string(num_samples) + " samples");
  }
  *num_own_samples = num_samples / num_ranks;
  return Status::Ok();
}

}  // namespace keras_sparse
