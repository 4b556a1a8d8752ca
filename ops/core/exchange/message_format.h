// What ranks send each other: blocks of 32-bit words, one for each rank.
#ifndef KERAS_SPARSE_OPS_CORE_EXCHANGE_MESSAGE_FORMAT_H_
#define KERAS_SPARSE_OPS_CORE_EXCHANGE_MESSAGE_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/exchange/exchange_layout.h"

namespace keras_sparse {

using Word = int32_t;

// A block of ids or rows begins with a header: the code of a Status, the bytes of its message, the
// checksum of the layout, and a Preparation or the size of a whole batch. An error's message
// follows and then nothing; so an error of one rank travels where its ids or rows would, and is
// seen by all ranks in the same step. As many words as keep rows of a multiple of 8 floats aligned
// to vectors.
constexpr int64_t kHeaderWords = 8;

// What a stage has made ready for a lookup of a rank: see PrefetchRounds.
struct Preparation {
  enum Kind { kNone, kStaged, kLeaving };

  Kind kind = kNone;
  int64_t stage = 0;  // which one of those of the exchange; below 2^29
  int64_t round = 0;
  int64_t staleness = 0;     // updates that the rows for others have missed; -1 if there are none
  uint32_t expectation = 0;  // its checksum

  void Write(Word* block) const;
  static Preparation Read(const Word* block);
};

// The number of samples of a whole batch: see whole_batches.h.
void WriteBatchSize(int64_t num_samples, Word* block);
int64_t ReadBatchSize(const Word* block);

// `[rank r of n] `, with which a message begins that says what is wrong on a rank.
std::string RankPrefix(const ExchangeLayout& layout, size_t rank);

// Horovod counts in int32 where the words begin that a rank sends to each other one and gets of it.
std::string TooManyWords(int64_t num_words);
// ResourceExhausted for 2^31 words of one rank, or to or from all others, or more.
//   num_words  (num_ranks) of the block to or from each
Status CheckNumWords(const ExchangeLayout& layout, const std::vector<int64_t>& num_words);

// Words of a block that holds nothing but this status.
int64_t StatusWords(const Status& status);
void WriteStatus(const Status& status, uint32_t checksum, Word* block);

// What came from a rank, or from this rank itself.
struct Block {
  const Word* words;
  int64_t num_words;
};

// Whether it holds an error; of a block of a header at least.
bool IsError(const Block& block);

// The first error that a rank has sent, or that its block is none of this layout.
// InvalidArgument etc. that begins with `[rank r of n]`.
//   blocks  (num_ranks)
Status CheckBlocks(const ExchangeLayout& layout, const std::vector<Block>& blocks);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_EXCHANGE_MESSAGE_FORMAT_H_
