// Records at stable addresses, numbered from 0: where one key shard keeps its rows.
#ifndef KERAS_SPARSE_OPS_CORE_RECORD_RECORD_SLABS_H_
#define KERAS_SPARSE_OPS_CORE_RECORD_RECORD_SLABS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/core/base/arena.h"
#include "ops/core/base/status.h"

namespace keras_sparse {

// Chunks grow with their number, 32 of a size before the size doubles, so that a row's address is a
// few shifts away, a table of any size has few chunks, and at most a 33rd of the room is unused.
//
// A storage may be limited to the chunks it has: further ones then come from another arena, and go
// back once the rows there have been freed.
//
// Thread safety: const methods may overlap; any other call needs the storage alone.
class RecordSlabs {
 public:
  // The arena outlives the storage and may be shared with others.
  RecordSlabs(Arena* arena, int64_t record_bytes) : arena_(arena), record_bytes_(record_bytes) {}

  // Records in use.
  int64_t size() const { return end_ - num_free(); }
  // Records that were freed and not given out again.
  int64_t num_free() const { return static_cast<int64_t>(free_.size()); }

  // A record, of no defined content.
  Status Allocate(uint32_t* row);
  // The number may be given out again.
  void Free(uint32_t row) { free_.push_back(row); }

  // Rows that there is memory for; whether the next one needs a new chunk, and its bytes.
  int64_t capacity() const { return capacity_; }
  bool is_full() const { return free_.empty() && end_ == capacity_; }
  int64_t next_chunk_bytes() const { return NextChunkRows() * record_bytes_; }

  // Further chunks come from `overflow`.
  void Limit(Arena* overflow) {
    limit_ = capacity_;
    arena_ = overflow;
  }
  bool is_limited() const { return limit_ != kUnlimited; }
  // Rows of the chunks within the limit. Records from there on are in the other arena.
  int64_t limit() const { return limit_; }
  // Gives out no more numbers beyond the limit.
  // REQUIRES: size() <= limit()
  void CloseOverflow();
  // Forgets the chunks beyond the limit.
  // REQUIRES: no record there is in use
  void DropOverflow();

  float* Record(uint32_t row) const {
    // Rows are counted from kFirst, so that the highest bit tells the octave and the bits after it
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
  static constexpr int kChunkBits = 5;    // 32 chunks an octave
  static constexpr int kFirstOctave = 7;  // 4 rows each in the first
  static constexpr uint64_t kFirst = uint64_t{1} << kFirstOctave;
  static constexpr int64_t kUnlimited = INT64_MAX;

  int64_t NextChunkRows() const {
    return int64_t{1} << (kFirstOctave - kChunkBits + (chunks_.size() >> kChunkBits));
  }

  Arena* arena_;
  int64_t record_bytes_;
  std::vector<char*> chunks_;
  int64_t end_ = 0;       // rows ever given out
  int64_t capacity_ = 0;  // rows the chunks hold
  int64_t limit_ = kUnlimited;
  std::vector<uint32_t> free_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_RECORD_RECORD_SLABS_H_
