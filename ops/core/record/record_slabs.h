// RecordSlabs: the rows of one key shard, at stable addresses, numbered from 0.
#ifndef KERAS_SPARSE_OPS_CORE_RECORD_RECORD_SLABS_H_
#define KERAS_SPARSE_OPS_CORE_RECORD_RECORD_SLABS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/core/base/arena.h"
#include "ops/core/base/status.h"

namespace keras_sparse {

// Chunks grow with their number; the size doubles after every 32 chunks. So a row's address takes a
// few shifts, a table of any size has few chunks, and at most a 33rd of the memory is unused.
//
// The object may be limited to its current chunks: further chunks are then allocated from another
// arena, and freed once their rows have been freed.
//
// Thread safety: const methods may overlap; any other call needs exclusive access to the object.
class RecordSlabs {
 public:
  // The arena must outlive the object and may be shared with others.
  RecordSlabs(Arena* arena, int64_t record_bytes) : arena_(arena), record_bytes_(record_bytes) {}

  // Number of records in use.
  int64_t size() const { return end_ - num_free(); }
  // Number of records that were freed and not reused.
  int64_t num_free() const { return static_cast<int64_t>(free_.size()); }

  // Allocates a record with undefined content.
  Status Allocate(uint32_t* row);
  // Frees a record; its number may be reused.
  void Free(uint32_t row) { free_.push_back(row); }

  // Number of rows allocated; whether the next row needs a new chunk, and that chunk's bytes.
  int64_t capacity() const { return capacity_; }
  bool is_full() const { return free_.empty() && end_ == capacity_; }
  int64_t next_chunk_bytes() const { return NextChunkRows() * record_bytes_; }

  // Allocates further chunks from `overflow`.
  void Limit(Arena* overflow) {
    limit_ = capacity_;
    arena_ = overflow;
  }
  bool is_limited() const { return limit_ != kUnlimited; }
  // Number of rows of the chunks within the limit. Later records are in the other arena.
  int64_t limit() const { return limit_; }
  // Stops handing out numbers beyond the limit.
  // REQUIRES: size() <= limit()
  void CloseOverflow();
  // Drops the chunks beyond the limit.
  // REQUIRES: no record in these chunks is in use
  void DropOverflow();

  float* Record(uint32_t row) const {
    // Rows are counted from kFirst, so that the highest bit selects the octave and the next bits
    // the chunk within it.
    const uint64_t at = uint64_t{row} + kFirst;
    const int octave = 63 - __builtin_clzll(at);
    const int shift = octave - kChunkBits;
    const size_t chunk = (static_cast<size_t>(octave - kFirstOctave) << kChunkBits) +
                         static_cast<size_t>((at >> shift) & ((1 << kChunkBits) - 1));
    const uint64_t offset = at & ((uint64_t{1} << shift) - 1);
    return reinterpret_cast<float*>(chunks_[chunk] + offset * static_cast<uint64_t>(record_bytes_));
  }

 private:
  static constexpr int kChunkBits = 5;    // 32 chunks per octave
  static constexpr int kFirstOctave = 7;  // 4 rows per chunk in the first octave
  static constexpr uint64_t kFirst = uint64_t{1} << kFirstOctave;
  static constexpr int64_t kUnlimited = INT64_MAX;

  int64_t NextChunkRows() const {
    return int64_t{1} << (kFirstOctave - kChunkBits + (chunks_.size() >> kChunkBits));
  }

  Arena* arena_;
  int64_t record_bytes_;
  std::vector<char*> chunks_;
  int64_t end_ = 0;       // rows ever handed out
  int64_t capacity_ = 0;  // rows of all chunks
  int64_t limit_ = kUnlimited;
  std::vector<uint32_t> free_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_RECORD_RECORD_SLABS_H_
