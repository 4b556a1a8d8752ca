#include "ops/core/ids/id_partition.h"

#include <algorithm>
#include <utility>

#include "ops/core/base/hash.h"

namespace keras_sparse {
namespace {

// Few enough that the working set of a part stays near the second-level cache, and that an op has
// parts for every thread. A table with one part skips the sort, which costs more than a working set
// that is somewhat too large.
constexpr int64_t kMaxIdsPerPart = 32768;
constexpr int64_t kMinIdsPerPart = 1024;
constexpr int64_t kPartsPerOp = 16;
constexpr int64_t kMinIdsPerChunk = 16384;
constexpr int64_t kNanosecondsPerPartitionedId = 3;

int64_t IdsPerPart(const std::vector<IdList>& lists) {
  int64_t num_ids = 0;
  for (const IdList& list : lists) num_ids += list.num_ids;
  return std::clamp(num_ids / kPartsPerOp, kMinIdsPerPart, kMaxIdsPerPart);
}

int PartitionBits(const IdList& list, int64_t ids_per_part) {
  int bits = 0;
  while (bits < list.max_partition_bits && (list.num_ids >> bits) > ids_per_part) ++bits;
  return bits;
}

// A piece of a list that one thread counts and moves.
struct Chunk {
  size_t list;
  int64_t begin;
  int64_t end;
  int bits;
  std::vector<int64_t> next;  // (parts) first the counts, then the position of a part's next id
};

std::vector<Chunk> CutIntoChunks(const std::vector<IdList>& lists) {
  std::vector<Chunk> chunks;
  const int64_t ids_per_part = IdsPerPart(lists);
  for (size_t l = 0; l < lists.size(); ++l) {
    const int bits = PartitionBits(lists[l], ids_per_part);
    if (bits == 0) continue;
    // A chunk's counters should need no more memory than its ids.
    const int64_t ids_per_chunk = std::max(kMinIdsPerChunk, int64_t{1} << bits);
    for (int64_t begin = 0; begin < lists[l].num_ids; begin += ids_per_chunk) {
      chunks.push_back({l, begin, std::min(begin + ids_per_chunk, lists[l].num_ids), bits,
                        std::vector<int64_t>(size_t{1} << bits)});
    }
  }
  return chunks;
}

}  // namespace

std::vector<IdPartition> PartitionIds(const std::vector<IdList>& lists, Executor* executor) {
  std::vector<IdPartition> partitions(lists.size());
  std::vector<Chunk> chunks = CutIntoChunks(lists);
  const auto num_chunks = static_cast<int64_t>(chunks.size());
  executor->ParallelFor(num_chunks, kMinIdsPerChunk * kNanosecondsPerPartitionedId,
                        [&](int64_t first, int64_t last) {
                          for (int64_t c = first; c < last; ++c) {
                            Chunk& chunk = chunks[static_cast<size_t>(c)];
                            const int64_t* ids = lists[chunk.list].ids;
                            for (int64_t i = chunk.begin; i < chunk.end; ++i) {
                              ++chunk.next[TopBits(HashKey(ids[i]), chunk.bits)];
                            }
                          }
                        });

  // Turns counts into positions: part by part, and chunk by chunk inside a part.
  size_t chunk_begin = 0;
  for (size_t l = 0; l < lists.size(); ++l) {
    IdPartition& partition = partitions[l];
    const auto num_ids = static_cast<size_t>(lists[l].num_ids);
    size_t chunk_end = chunk_begin;
    while (chunk_end < chunks.size() && chunks[chunk_end].list == l) ++chunk_end;
    partition.begin_.push_back(0);
    if (chunk_begin == chunk_end) {
      partition.ids_ = lists[l].ids;
      partition.positions_ = lists[l].names;
      partition.begin_.push_back(lists[l].num_ids);
      continue;
    }
    // Arrays, because vectors would write zeros first.
    partition.owned_ids_.reset(new int64_t[num_ids]);
    partition.owned_positions_.reset(new uint32_t[num_ids]);
    partition.ids_ = partition.owned_ids_.get();
    partition.positions_ = partition.owned_positions_.get();
    int64_t place = 0;
    for (size_t part = 0; part < chunks[chunk_begin].next.size(); ++part) {
      for (size_t c = chunk_begin; c < chunk_end; ++c) {
        place += std::exchange(chunks[c].next[part], place);
      }
      partition.begin_.push_back(place);
    }
    chunk_begin = chunk_end;
  }

  executor->ParallelFor(
      num_chunks, kMinIdsPerChunk * kNanosecondsPerPartitionedId, [&](int64_t first, int64_t last) {
        for (int64_t c = first; c < last; ++c) {
          Chunk& chunk = chunks[static_cast<size_t>(c)];
          const int64_t* ids = lists[chunk.list].ids;
          int64_t* sorted_ids = partitions[chunk.list].owned_ids_.get();
          uint32_t* positions = partitions[chunk.list].owned_positions_.get();
          const uint32_t* names = lists[chunk.list].names;
          for (int64_t i = chunk.begin; i < chunk.end; ++i) {
            const int64_t place = chunk.next[TopBits(HashKey(ids[i]), chunk.bits)]++;
            sorted_ids[place] = ids[i];
            positions[place] = names == nullptr ? static_cast<uint32_t>(i) : names[i];
          }
        }
      });
  return partitions;
}

}  // namespace keras_sparse
