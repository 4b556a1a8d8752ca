#include "ops/core/exchange/gathered_rows.h"

#include <cstring>
#include <string>

namespace keras_sparse {
namespace {

constexpr int64_t kWordsPerServedId = 2;

Status MalformedRequest(size_t rank) {
  return Status(StatusCode::kDataLoss, "what rank " + std::to_string(rank) +
                                           " asks for must be ids and bags of them. Received: a "
                                           "block that is too short, too long or points beyond it");
}

}  // namespace

int64_t GatheredRows::Asked::Id(int64_t place) const {
  int64_t id;
  std::memcpy(&id, ids + kWordsPerServedId * place, sizeof(id));
  return id;
}

Status GatheredRows::Create(const ExchangeLayout& layout, const std::vector<Block>& blocks,
                            std::unique_ptr<GatheredRows>* served) {
  KERAS_SPARSE_RETURN_IF_ERROR(CheckBlocks(layout, blocks));
  std::unique_ptr<GatheredRows> result(new GatheredRows(layout));
  for (size_t r = 0; r < layout.num_ranks; ++r) {
    KERAS_SPARSE_RETURN_IF_ERROR(result->ReadBlock(r, blocks[r].words + kHeaderWords,
                                                   blocks[r].words + blocks[r].num_words));
  }
  *served = std::move(result);
  return Status::Ok();
}

Status GatheredRows::ReadBlock(size_t rank, const Word* block, const Word* end) {
  for (OwnPart& part : parts_) {
    Asked asked;
    if (end - block < 4) return MalformedRequest(rank);
    asked.num_ids = *block++;
    asked.num_single = *block++;
    asked.num_bags = *block++;
    asked.num_bag_ids = *block++;
    const bool counts = asked.num_ids >= 0 && asked.num_single >= 0 && asked.num_bags >= 0 &&
                        asked.num_bag_ids >= 0 && asked.num_single <= asked.num_ids;
    const int64_t needed = kWordsPerServedId * asked.num_ids + asked.num_bags + asked.num_bag_ids;
    if (!counts || end - block < needed) return MalformedRequest(rank);
    asked.ids = block;
    asked.lengths = asked.ids + kWordsPerServedId * asked.num_ids;
    asked.places = asked.lengths + asked.num_bags;
    block += needed;
    int64_t num_bag_ids = 0;
    if (asked.num_bags > 0) asked.bag_splits.push_back(0);
    for (int64_t b = 0; b < asked.num_bags; ++b) {
      if (asked.lengths[b] < 0) return MalformedRequest(rank);
      num_bag_ids += asked.lengths[b];
      asked.bag_splits.push_back(num_bag_ids);
    }
    if (num_bag_ids != asked.num_bag_ids) return MalformedRequest(rank);
    for (int64_t i = 0; i < num_bag_ids; ++i) {
      if (asked.places[i] < 0 || asked.places[i] >= asked.num_ids) return MalformedRequest(rank);
    }
    part.num_ids += asked.num_single + asked.num_bag_ids;
    part.num_rows += asked.num_rows();
    part.num_bags += asked.num_bags;
    part.asked.push_back(std::move(asked));
  }
  return block == end ? Status::Ok() : MalformedRequest(rank);
}

void GatheredRows::WriteIds(size_t part, int64_t* ids, int64_t* splits) const {
  int64_t at = 0;
  if (splits != nullptr) *splits++ = 0;
  for (const Asked& asked : parts_[part].asked) {
    if (asked.num_single > 0) {
      std::memcpy(ids + at, asked.ids, static_cast<size_t>(8 * asked.num_single));
    }
    for (int64_t i = 0; splits != nullptr && i < asked.num_single; ++i) *splits++ = at + i + 1;
    at += asked.num_single;
    for (int64_t i = 0; i < asked.num_bag_ids; ++i) ids[at + i] = asked.Id(asked.places[i]);
    for (int64_t b = 0; splits != nullptr && b < asked.num_bags; ++b) {
      *splits++ = at + asked.bag_splits[static_cast<size_t>(b) + 1];
    }
    at += asked.num_bag_ids;
  }
}

int64_t GatheredRows::num_words(size_t rank, FloatType wire_type) const {
  int64_t words = 0;
  for (size_t p = 0; p < parts_.size(); ++p) {
    const ReplyFormat format = FormatOf(p, wire_type);
    const Asked& asked = parts_[p].asked[rank];
    words += format.RowWords(asked.num_single) + format.SumWords(asked.num_bags);
  }
  return words;
}

int64_t GatheredRows::num_floats(size_t rank) const {
  int64_t floats = 0;
  for (size_t p = 0; p < parts_.size(); ++p) {
    floats += num_rows(p, rank) * layout_.slice(layout_.own_parts()[p]).num_columns;
  }
  return floats;
}

std::vector<LookupRequest> GatheredRows::Lookups(const std::vector<EmbeddingTable*>& tables,
                                                 const std::vector<const int64_t*>& ids,
                                                 const std::vector<Word*>& replies,
                                                 FloatType wire_type,
                                                 std::vector<int64_t>* versions,
                                                 std::vector<uint32_t>* num_updates) const {
  std::vector<LookupRequest> requests;
  if (versions != nullptr) {
    versions->resize(parts_.size());
    num_updates->resize(parts_.size());
    // Includes tables that no rank requests. Read together with the lookups, so that all see the
    // tables at one time.
    for (size_t p = 0; p < parts_.size(); ++p) {
      requests.push_back(
          {tables[p], nullptr, Bags(), nullptr, &(*versions)[p], &(*num_updates)[p]});
    }
  }
  std::vector<Word*> next = replies;
  for (size_t p = 0; p < parts_.size(); ++p) {
    const int64_t* part_ids = ids[p];
    const ReplyFormat format = FormatOf(p, wire_type);
    for (size_t r = 0; r < layout_.num_ranks; ++r) {
      const Asked& asked = parts_[p].asked[r];
      Bags rows;
      rows.num_ids = rows.num_bags = asked.num_single;
      if (rows.num_ids > 0) {
        requests.push_back({tables[p], part_ids, rows, {next[r], 0, format.row_type()}});
      }
      part_ids += asked.num_single;
      next[r] += format.RowWords(asked.num_single);
      if (asked.num_bags == 0) continue;
      Bags bags;
      bags.combiner = Combiner::kSum;
      bags.num_ids = asked.num_bag_ids;
      bags.num_bags = asked.num_bags;
      bags.row_splits = asked.bag_splits.data();
      requests.push_back({tables[p], part_ids, bags, {next[r], 0, format.sum_type()}});
      part_ids += asked.num_bag_ids;
      next[r] += format.SumWords(asked.num_bags);
    }
  }
  return requests;
}

}  // namespace keras_sparse
