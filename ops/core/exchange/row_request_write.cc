#include <algorithm>
#include <cstring>

#include "ops/core/exchange/row_request.h"

namespace keras_sparse {
namespace {

constexpr int64_t kNanosecondsPerBlock = 100000;

}  // namespace

int64_t RowRequest::num_words(size_t rank) const {
  int64_t words = kHeaderWords;
  for (const ExchangeLayout::Part& part : layout_.parts_of_rank[rank]) {
    words += tables_[part.table].shards[layout_.shard(part)].num_words();
  }
  return words;
}

int64_t RowRequest::num_positions(size_t input) const {
  if (inputs_[input].wants_bags) return static_cast<int64_t>(inputs_[input].parts.size());
  return requests_[input].bags.num_ids;
}

void RowRequest::Write(const Result& result, Executor* executor) const {
  const auto num_blocks = static_cast<int64_t>(layout_.num_ranks);
  const auto num_inputs = static_cast<int64_t>(inputs_.size());
  executor->ParallelFor(num_blocks + num_inputs, kNanosecondsPerBlock,
                        [&](int64_t first, int64_t last) {
                          for (int64_t i = first; i < last; ++i) {
                            if (i < num_blocks) {
                              WriteBlock(static_cast<size_t>(i), result.blocks[i]);
                            } else {
                              const auto input = static_cast<size_t>(i - num_blocks);
                              WriteInput(input, result.inputs[input]);
                            }
                          }
                        });
  for (size_t t = 0; t < tables_.size(); ++t) {
    const ExchangedTable& table = layout_.tables[t];
    int64_t* rows = result.reply_rows + t * layout_.num_ranks;
    std::fill_n(rows, layout_.num_ranks, 0);
    for (size_t s = 0; s < table.slices.size(); ++s) {
      rows[table.slices[s].rank] = tables_[t].shards[table.by_rows ? s : 0].num_reply_rows();
    }
  }
}

void RowRequest::WriteInput(size_t i, const InputResult& result) const {
  const Input& input = inputs_[i];
  const Bags& bags = requests_[i].bags;
  const Table& table = tables_[requests_[i].table];
  if (input.wants_bags) {
    for (size_t p = 0; p < input.parts.size(); ++p) {
      const Shard& shard = table.shards[input.part_shards[p]];
      result.positions[p] =
          static_cast<uint32_t>(shard.first_reply_row + shard.num_single) + input.parts[p];
    }
    std::copy(input.splits.begin(), input.splits.end(), result.splits);
  } else {
    const uint32_t* unique_of = table.unique_of.data() + input.first_id;
    for (int64_t p = 0; p < bags.num_ids; ++p) {
      const uint32_t unique = unique_of[p];
      const uint32_t shard = table.shard_of.empty() ? 0 : table.shard_of[unique];
      const uint32_t place = table.place_of.empty() ? unique : table.place_of[unique];
      result.positions[p] = static_cast<uint32_t>(table.shards[shard].first_reply_row) + place;
    }
    if (result.splits != nullptr) {
      std::copy_n(bags.row_splits, bags.num_bags + 1, result.splits);
    }
  }
  if (result.scales == nullptr) return;
  for (int64_t b = 0; b < bags.num_bags; ++b) result.scales[b] = bags.Scale(b);
}

void RowRequest::WriteBlock(size_t rank, Word* block) const {
  WriteStatus(Status::Ok(), layout_.checksum, block);
  block += kHeaderWords;
  for (const ExchangeLayout::Part& part : layout_.parts_of_rank[rank]) {
    const Table& table = tables_[part.table];
    const Shard& shard = table.shards[layout_.shard(part)];
    *block++ = static_cast<Word>(shard.num_ids);
    *block++ = static_cast<Word>(shard.num_single);
    *block++ = static_cast<Word>(shard.num_bags());
    *block++ = static_cast<Word>(shard.places.size());
    const int64_t* ids = shard.ids.empty() ? table.unique_ids.data() : shard.ids.data();
    if (shard.num_ids > 0) std::memcpy(block, ids, static_cast<size_t>(8 * shard.num_ids));
    block = std::copy(shard.lengths.begin(), shard.lengths.end(), block + 2 * shard.num_ids);
    block = std::copy(shard.places.begin(), shard.places.end(), block);
  }
}

}  // namespace keras_sparse
