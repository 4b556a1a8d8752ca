// The messages between ranks: blocks of 32-bit words, one for each rank.
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

// A block of ids or rows begins with a header: the code of a Status, the number of bytes of its
// message, the checksum of the layout, and a Preparation or the size of a whole batch. An error is
// followed only by its message. So a rank's error is sent in place of its ids or rows, and all
// ranks see it in the same step. The number of words keeps rows of a multiple of 8 floats aligned
// to vectors.
constexpr int64_t kHeaderWords = 8;

// The state of a stage's lookup on one rank: see PrefetchRounds.
struct Preparation {
  enum Kind { kNone, kStaged, kLeaving };

  Kind kind = kNone;
  int64_t stage = 0;  // number among the stages of the exchange; below 2^29
  int64_t round = 0;
  int64_t staleness = 0;     // updates that the rows for others have missed; -1 without rows
  uint32_t expectation = 0;  // its checksum

  void Write(Word* block) const;
  static Preparation Read(const Word* block);
};

// The number of samples of a whole batch: see whole_batches.h.
void WriteBatchSize(int64_t num_samples, Word* block);
int64_t ReadBatchSize(const Word* block);
// Whether the rows of a whole batch are as they are stored. False if they were multiplied by
// weights: such a rank sends all rows in the wire's type.
void WriteHasStoredRows(bool has_stored_rows, Word* block);
bool ReadHasStoredRows(const Word* block);

// Returns `[rank r of n] `, the prefix of messages about a rank's error.
std::string RankPrefix(const ExchangeLayout& layout, size_t rank);

// Horovod counts the positions of words for and from each rank in int32.
std::string TooManyWords(int64_t num_words);
// Returns ResourceExhausted for 2^31 words or more of one rank, or to or from all others.
//   num_words  (num_ranks) of the block to or from each rank
Status CheckNumWords(const ExchangeLayout& layout, const std::vector<int64_t>& num_words);

// Returns the words of a block that contains only this status.
int64_t StatusWords(const Status& status);
void WriteStatus(const Status& status, uint32_t checksum, Word* block);

// A block received from a rank, or from this rank itself.
struct Block {
  const Word* words;
  int64_t num_words;
};

// Returns whether the block contains an error. The block must have a header.
bool IsError(const Block& block);

// Returns the first error that a rank has sent, or an error for the first block that does not fit
// this layout; its message begins with `[rank r of n]`.
//   blocks  (num_ranks)
Status CheckBlocks(const ExchangeLayout& layout, const std::vector<Block>& blocks);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_EXCHANGE_MESSAGE_FORMAT_H_
