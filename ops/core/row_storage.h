// Records at stable addresses, numbered from 0: where one key shard keeps its rows.
#ifndef KERAS_SPARSE_OPS_CORE_ROW_STORAGE_H_
#define KERAS_SPARSE_OPS_CORE_ROW_STORAGE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/core/arena.h"
#include "ops/core/status.h"

namespace keras_sparse {

// Chunks grow with their number, eight of a size before the size doubles, so that a row's address
// is a few shifts away, a table of any size has few chunks, and at most a ninth of the room is
// unused.
//
// Thread safety: const methods may overlap; any other call needs the storage alone.
class RowStorage {
 public:
  // The arena outlives the storage and may be shared with others.
  RowStorage(Arena* arena, int64_t record_bytes) : arena_(arena), record_bytes_(record_bytes) {}

  // Records in use.
  int64_t size() const { return end_ - static_cast<int64_t>(free_.size()); }

  // A record, of no defined content.
  Status Allocate(uint32_t* row);
  // The number may be given out again.
  void Free(uint32_t row) { free_.push_back(row); }

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
  static constexpr int kChunkBits = 3;    // 8 chunks an octave
  static constexpr int kFirstOctave = 5;  // 4 rows each in the first
  static constexpr uint64_t kFirst = uint64_t{1} << kFirstOctave;

  Arena* arena_;
  int64_t record_bytes_;
  std::vector<char*> chunks_;
  int64_t end_ = 0;       // rows ever given out
  int64_t capacity_ = 0;  // rows the chunks hold
  std::vector<uint32_t> free_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_ROW_STORAGE_H_
