// Tables of plain C++: an array of records (row, then slots) of one fixed width, and for a dynamic
// one an open-addressing index from key to record, half full at most.
#ifndef KERAS_SPARSE_BENCHMARKS_FLOOR_TABLES_H_
#define KERAS_SPARSE_BENCHMARKS_FLOOR_TABLES_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace plain {

inline uint64_t Hash(int64_t key) {
  uint64_t h = static_cast<uint64_t>(key) * 0x9E3779B97F4A7C15ull;
  return h ^ (h >> 32);
}

struct IndexSlot {
  int64_t key;
  int64_t record;  // 1 + position; 0 is an empty slot
};

struct Table {
  std::vector<std::pair<void*, size_t>> mapped;
  float* records = nullptr;
  int64_t num_records = 0;
  IndexSlot* index = nullptr;  // null for a static table
  uint64_t mask = 0;
};

struct Group {
  std::vector<Table> tables;
  int dim = 0;
  int stride = 0;             // floats in a record
  int64_t output_stride = 0;  // floats from one row of an output, or gradient, to the next
};

// Which record a unique id lives in, for a group of ids at a time.
template <int D>
void Locate(const Group& group, const Table& table, const int64_t* ids, int64_t n,
            float** records) {
  if (table.index == nullptr) {
    for (int64_t i = 0; i < n; ++i) records[i] = table.records + ids[i] * group.stride;
    return;
  }
  for (int64_t i = 0; i < n; ++i) __builtin_prefetch(&table.index[Hash(ids[i]) & table.mask]);
  for (int64_t i = 0; i < n; ++i) {
    uint64_t at = Hash(ids[i]) & table.mask;
    while (table.index[at].key != ids[i]) at = (at + 1) & table.mask;
    records[i] = table.records + (table.index[at].record - 1) * group.stride;
  }
}

template <int floats>
void PrefetchFloats(const float* p) {
  for (int i = 0; i < floats; i += 16) __builtin_prefetch(p + i);
}

}  // namespace plain

#endif  // KERAS_SPARSE_BENCHMARKS_FLOOR_TABLES_H_
