#include "ops/core/exchange/packed_slices.h"

#include <cstring>
#include <limits>
#include <string>
#include <utility>

namespace keras_sparse {
namespace {

constexpr int64_t kWordsPerSliceId = 2;
constexpr size_t kWordBytes = sizeof(int32_t);
static_assert(sizeof(float) == kWordBytes && sizeof(int64_t) == kWordsPerSliceId * kWordBytes);

size_t BytesOf(int64_t num_words) { return static_cast<size_t>(num_words) * kWordBytes; }

// Skips empty copies, because memcpy rejects the null pointer of an empty tensor.
void CopyWords(const void* from, int64_t num_words, void* to) {
  if (num_words > 0) std::memcpy(to, from, BytesOf(num_words));
}

Status MalformedSlices(int64_t rank, const std::string& rule, const std::string& received) {
  return InvalidArgument("Packed gradients must " + rule +
                         "; give all ranks the same model. Received: rank " + std::to_string(rank) +
                         " with " + received);
}

}  // namespace

Status CountPackedWords(const std::vector<RowSlices>& tables, int64_t* num_words) {
  *num_words = 1 + static_cast<int64_t>(tables.size());
  for (size_t t = 0; t < tables.size(); ++t) {
    if (tables[t].num_ids > std::numeric_limits<int32_t>::max()) {
      return ResourceExhausted(
          "The gradient of a table that all ranks have must be of less than 2^31 rows; shard the "
          "table instead. Received: table " +
          std::to_string(t) + " with " + std::to_string(tables[t].num_ids));
    }
    *num_words += tables[t].num_ids * (kWordsPerSliceId + tables[t].width);
  }
  return Status::Ok();
}

void PackSlices(const std::vector<RowSlices>& tables, float scale, int32_t* words) {
  *words++ = static_cast<int32_t>(tables.size());
  for (const RowSlices& table : tables) *words++ = static_cast<int32_t>(table.num_ids);
  for (const RowSlices& table : tables) {
    CopyWords(table.ids, kWordsPerSliceId * table.num_ids, words);
    words += kWordsPerSliceId * table.num_ids;
    const int64_t num_values = table.num_ids * table.width;
    for (int64_t i = 0; i < num_values; ++i) {
      const float value = scale * table.values[i];
      std::memcpy(words + i, &value, kWordBytes);
    }
    words += num_values;
  }
}

Status PackedSlices::Open(const int32_t* words, int64_t num_words, std::vector<int64_t> widths,
                          int64_t num_ranks, PackedSlices* slices) {
  slices->num_ids_.assign(widths.size(), 0);
  slices->pieces_.assign(widths.size(), {});
  slices->widths_ = std::move(widths);
  for (int64_t rank = 0; rank < num_ranks; ++rank) {
    KERAS_SPARSE_RETURN_IF_ERROR(slices->ReadRank(rank, &words, &num_words));
  }
  if (num_words > 0) {
    return MalformedSlices(num_ranks - 1, "end with those of the last rank",
                           std::to_string(num_words) + " words more");
  }
  return Status::Ok();
}

Status PackedSlices::ReadRank(int64_t rank, const int32_t** words, int64_t* num_words) {
  const auto num_tables = static_cast<int64_t>(widths_.size());
  if (*num_words < 1 + num_tables) {
    return MalformedSlices(rank,
                           "begin with the counts of " + std::to_string(num_tables) + " tables",
                           std::to_string(*num_words) + " words");
  }
  if (**words != num_tables) {
    return MalformedSlices(rank, "be of " + std::to_string(num_tables) + " tables",
                           std::to_string(**words) + " tables");
  }
  const int32_t* counts = *words + 1;
  *words += 1 + num_tables;
  *num_words -= 1 + num_tables;
  for (size_t t = 0; t < widths_.size(); ++t) {
    const int64_t num_ids = counts[t];
    // By division, because a product of received numbers may overflow.
    if (num_ids < 0 || num_ids > *num_words / (kWordsPerSliceId + widths_[t])) {
      return MalformedSlices(rank,
                             "have a row of " + std::to_string(widths_[t]) + " values for each id",
                             std::to_string(num_ids) + " ids of table " + std::to_string(t) +
                                 " in " + std::to_string(*num_words) + " words");
    }
    pieces_[t].push_back({*words, num_ids});
    num_ids_[t] += num_ids;
    *words += num_ids * (kWordsPerSliceId + widths_[t]);
    *num_words -= num_ids * (kWordsPerSliceId + widths_[t]);
  }
  return Status::Ok();
}

void PackedSlices::Copy(size_t table, int64_t* ids, float* values) const {
  const int64_t width = widths_[table];
  for (const Piece& piece : pieces_[table]) {
    CopyWords(piece.words, kWordsPerSliceId * piece.num_ids, ids);
    CopyWords(piece.words + kWordsPerSliceId * piece.num_ids, piece.num_ids * width, values);
    ids += piece.num_ids;
    values += piece.num_ids * width;
  }
}

}  // namespace keras_sparse
