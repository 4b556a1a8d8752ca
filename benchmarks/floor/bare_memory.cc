// Bare reads of memory, for what a machine's memory gives without any table.
//
// Compiled and linked with floor.cc.

#include <immintrin.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "memory.h"

extern "C" {

// Sums `bytes` of memory in order, on all threads; the caller times it.
float FloorReadInOrder(const float* memory, int64_t bytes) {
  const int64_t n = bytes / static_cast<int64_t>(sizeof(float));
  float total = 0;
#pragma omp parallel for reduction(+ : total) schedule(static)
  for (int64_t block = 0; block < n / 4096; ++block) {
    __m256 sums[4] = {};
    for (int64_t i = 0; i < 4096; i += 32) {
      for (int k = 0; k < 4; ++k) {
        sums[k] = _mm256_add_ps(sums[k], _mm256_loadu_ps(memory + block * 4096 + i + 8 * k));
      }
    }
    const __m256 sum =
        _mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3]));
    total += sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
  }
  return total;
}

// Sums rows at random positions, prefetched, on all threads.
float FloorReadAtRandom(const float* memory, int64_t row_floats, const int64_t* rows, int64_t n) {
  float total = 0;
#pragma omp parallel for reduction(+ : total) schedule(static)
  for (int64_t i = 0; i < n; ++i) {
    const float* ahead = memory + rows[i + 16 < n ? i + 16 : i] * row_floats;
    for (int64_t d = 0; d < row_floats; d += 16) __builtin_prefetch(ahead + d);
    const float* row = memory + rows[i] * row_floats;
    __m256 sum = _mm256_setzero_ps();
    for (int64_t d = 0; d < row_floats; d += 8) sum = _mm256_add_ps(sum, _mm256_loadu_ps(row + d));
    total += sum[0] + sum[4];
  }
  return total;
}

void* FloorMap(int64_t bytes, int huge) {
  void* memory = plain::Map(bytes, huge);
  std::memset(memory, 1, bytes);
  return memory;
}

void FloorUnmap(void* memory, int64_t bytes) { munmap(memory, bytes); }

}  // extern "C"
