#include "ops/core/exchange/wire.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace keras_sparse {
namespace {

constexpr int64_t kCode = 0;
constexpr int64_t kMessageBytes = 1;
constexpr int64_t kChecksum = 2;

std::string Prefix(const ExchangeLayout& layout, size_t rank) {
  return "[rank " + std::to_string(rank) + " of " + std::to_string(layout.num_ranks) + "] ";
}

Status CheckBlock(const ExchangeLayout& layout, size_t rank, const Word* block, int64_t num_words) {
  if (num_words < kHeaderWords) {
    return Status(StatusCode::kDataLoss,
                  Prefix(layout, rank) + "a block of an exchange must have " +
                      std::to_string(kHeaderWords) +
                      " words at least. Received: " + std::to_string(num_words));
  }
  if (block[kCode] != 0) {
    const int64_t room = 4 * (num_words - kHeaderWords);
    const int64_t bytes = std::clamp<int64_t>(block[kMessageBytes], 0, room);
    return Status(
        static_cast<StatusCode>(block[kCode]),
        Prefix(layout, rank) + std::string(reinterpret_cast<const char*>(block + kHeaderWords),
                                           static_cast<size_t>(bytes)));
  }
  if (static_cast<uint32_t>(block[kChecksum]) != layout.checksum) {
    return FailedPrecondition(Prefix(layout, rank) +
                              "every rank must make the same tables and plan. Make the layer with "
                              "the same arguments on all ranks. Received: another layout than that "
                              "of rank " +
                              std::to_string(layout.rank));
  }
  return Status::Ok();
}

}  // namespace

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

std::vector<int64_t> BlockBorders(const int32_t* splits, size_t num_ranks) {
  std::vector<int64_t> borders(num_ranks + 1, 0);
  for (size_t r = 0; r < num_ranks; ++r) borders[r + 1] = borders[r] + splits[r];
  return borders;
}

Status CheckBlocks(const ExchangeLayout& layout, const Word* words, int64_t num_words,
                   const int32_t* splits) {
  const std::vector<int64_t> borders = BlockBorders(splits, layout.num_ranks);
  const bool rise = std::is_sorted(borders.begin(), borders.end());
  if (!rise || borders.back() != num_words) {
    return InvalidArgument(
        "`splits` must be the words of each rank. Received: " + std::to_string(borders.back()) +
        " in all, of " + std::to_string(num_words) + " words");
  }
  for (size_t r = 0; r < layout.num_ranks; ++r) {
    KERAS_SPARSE_RETURN_IF_ERROR(
        CheckBlock(layout, r, words + borders[r], borders[r + 1] - borders[r]));
  }
  return Status::Ok();
}

}  // namespace keras_sparse
