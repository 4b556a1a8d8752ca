#include "ops/core/exchange/message_format.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>

namespace keras_sparse {
namespace {

constexpr int64_t kCode = 0;
constexpr int64_t kMessageBytes = 1;
constexpr int64_t kChecksum = 2;
constexpr int64_t kStageAndKind = 3;  // the kind in the lowest bits
constexpr int64_t kRound = 4;         // two words
constexpr int64_t kStaleness = 6;
constexpr int64_t kExpectation = 7;
constexpr int64_t kBatchSize = 4;      // two words, at the position of a Preparation's round
constexpr int64_t kHasStoredRows = 6;  // at the position of a Preparation's staleness
constexpr int64_t kNumKinds = 4;       // number of kinds that fit

Status CheckBlock(const ExchangeLayout& layout, size_t rank, const Block& received) {
  const auto [block, num_words] = received;
  if (num_words < kHeaderWords) {
    return Status(StatusCode::kDataLoss,
                  RankPrefix(layout, rank) + "a block of an exchange must have " +
                      std::to_string(kHeaderWords) +
                      " words at least. Received: " + std::to_string(num_words));
  }
  if (IsError(received)) {
    const int64_t room = 4 * (num_words - kHeaderWords);
    const int64_t bytes = std::clamp<int64_t>(block[kMessageBytes], 0, room);
    const std::string message(reinterpret_cast<const char*>(block + kHeaderWords),
                              static_cast<size_t>(bytes));
    // Errors from a binding already name their rank.
    const bool is_named = message.rfind("[rank ", 0) == 0;
    return Status(static_cast<StatusCode>(block[kCode]),
                  is_named ? message : RankPrefix(layout, rank) + message);
  }
  if (static_cast<uint32_t>(block[kChecksum]) != layout.checksum) {
    return FailedPrecondition(
        RankPrefix(layout, rank) +
        "every rank must make the same layers, and ranks must call them, and take their gradients, "
        "in the same order outside of a tf.function. Received: what belongs to another layer than "
        "the one that rank " +
        std::to_string(layout.rank) + " calls, or to one made with other arguments");
  }
  return Status::Ok();
}

}  // namespace

std::string RankPrefix(const ExchangeLayout& layout, size_t rank) {
  return "[rank " + std::to_string(rank) + " of " + std::to_string(layout.num_ranks) + "] ";
}

std::string TooManyWords(int64_t num_words) {
  return "a rank may send others fewer than 2^31 words in a step, and get as many of them; take "
         "smaller batches. Received: " +
         std::to_string(num_words);
}

Status CheckNumWords(const ExchangeLayout& layout, const std::vector<int64_t>& num_words) {
  const int64_t own = num_words[layout.rank];  // not sent
  const int64_t all = std::accumulate(num_words.begin(), num_words.end(), int64_t{0});
  const int64_t most = std::max(own, all - own);
  if (most <= std::numeric_limits<int32_t>::max()) return Status::Ok();
  return ResourceExhausted(TooManyWords(most));
}

int64_t StatusWords(const Status& status) {
  return kHeaderWords + (static_cast<int64_t>(status.message().size()) + 3) / 4;
}

void WriteStatus(const Status& status, uint32_t checksum, Word* block) {
  std::fill_n(block, StatusWords(status), 0);
  block[kCode] = static_cast<Word>(status.code());
  block[kMessageBytes] = static_cast<Word>(status.message().size());
  block[kChecksum] = static_cast<Word>(checksum);
  std::memcpy(block + kHeaderWords, status.message().data(), status.message().size());
}

void Preparation::Write(Word* block) const {
  block[kStageAndKind] = static_cast<Word>(kNumKinds * stage + kind);
  std::memcpy(block + kRound, &round, sizeof(round));
  block[kStaleness] = static_cast<Word>(staleness);
  block[kExpectation] = static_cast<Word>(expectation);
}

Preparation Preparation::Read(const Word* block) {
  Preparation result;
  result.kind = static_cast<Kind>(block[kStageAndKind] % kNumKinds);
  result.stage = block[kStageAndKind] / kNumKinds;
  std::memcpy(&result.round, block + kRound, sizeof(result.round));
  result.staleness = block[kStaleness];
  result.expectation = static_cast<uint32_t>(block[kExpectation]);
  return result;
}

void WriteBatchSize(int64_t num_samples, Word* block) {
  std::memcpy(block + kBatchSize, &num_samples, sizeof(num_samples));
}

int64_t ReadBatchSize(const Word* block) {
  int64_t num_samples = 0;
  std::memcpy(&num_samples, block + kBatchSize, sizeof(num_samples));
  return num_samples;
}

void WriteHasStoredRows(bool has_stored_rows, Word* block) {
  block[kHasStoredRows] = has_stored_rows ? 1 : 0;
}

bool ReadHasStoredRows(const Word* block) { return block[kHasStoredRows] != 0; }

bool IsError(const Block& block) { return block.words[kCode] != 0; }

Status CheckBlocks(const ExchangeLayout& layout, const std::vector<Block>& blocks) {
  for (size_t r = 0; r < layout.num_ranks; ++r) {
    KERAS_SPARSE_RETURN_IF_ERROR(CheckBlock(layout, r, blocks[r]));
  }
  return Status::Ok();
}

}  // namespace keras_sparse
