// Memory for tables that is on huge pages, or on 4 KiB pages for certain.
#ifndef KERAS_SPARSE_BENCHMARKS_FLOOR_MEMORY_H_
#define KERAS_SPARSE_BENCHMARKS_FLOOR_MEMORY_H_

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace plain {

// Zeroed memory, on huge pages or on 4 KiB pages for certain.
inline void* Map(size_t bytes, bool huge) {
  void* memory = mmap(nullptr, bytes + (4 << 20), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("mmap");
    std::abort();
  }
  const uintptr_t aligned =
      (reinterpret_cast<uintptr_t>(memory) + (2 << 20) - 1) & ~uintptr_t{(2 << 20) - 1};
  // To the end of the last huge page, which is mapped as well: a small table has a whole one too.
  const size_t pages = (bytes + (2 << 20) - 1) & ~((size_t{2} << 20) - 1);
  madvise(reinterpret_cast<void*>(aligned), pages, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return reinterpret_cast<void*>(aligned);
}

}  // namespace plain

#endif  // KERAS_SPARSE_BENCHMARKS_FLOOR_MEMORY_H_
