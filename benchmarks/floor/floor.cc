// What the work could cost: gather, merge and update in plain C++ with software prefetch, nothing
// around it. No checks, no initial rows, no growth, no persistence: a floor to compare with, not an
// engine.
//
// Compiled when a benchmark starts: g++ -O3 -march=native -fopenmp -shared -fPIC.

#include <sys/mman.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include "lookup.h"
#include "memory.h"
#include "tables.h"
#include "update.h"

namespace plain {
namespace {

enum RuleNumber { kSgd = 0, kAdagrad = 1, kLazyAdam = 2, kAdam = 3 };

// Adam's learning rate of a step, with the correction of the moments' bias. Step 0 has none.
float AlphaOf(int64_t step) {
  if (step == 0) return 0;
  return static_cast<float>(0.001 * std::sqrt(1 - std::pow(0.999, step)) /
                            (1 - std::pow(0.9, step)));
}

template <int D>
void Update(Group& group, int rule, const int64_t* const* ids, const int64_t* const* splits,
            const int64_t* num_ids, int64_t num_bags, const float* const* grads, int64_t step) {
  if (rule == kSgd) Apply<D>(group, ids, splits, num_ids, num_bags, grads, Sgd{0.01f});
  if (rule == kAdagrad)
    Apply<D>(group, ids, splits, num_ids, num_bags, grads, Adagrad{0.01f, 1e-7f});
  const LazyAdam lazy_adam{AlphaOf(step), 0.1f, 0.001f, 1e-7f};
  if (rule == kLazyAdam) Apply<D>(group, ids, splits, num_ids, num_bags, grads, lazy_adam);
  if (rule == kAdam) {
    const Adam adam{lazy_adam, CaughtUp(step - 1, AlphaOf(step - 1))};
    Apply<D>(group, ids, splits, num_ids, num_bags, grads, adam);
  }
}

// Calls `call` with the width as one that is known when compiling.
template <class Call>
void WithDim(int dim, Call call) {
  if (dim == 4) return call(std::integral_constant<int, 4>());
  if (dim == 8) return call(std::integral_constant<int, 8>());
  if (dim == 16) return call(std::integral_constant<int, 16>());
  if (dim == 32) return call(std::integral_constant<int, 32>());
  if (dim == 64) return call(std::integral_constant<int, 64>());
  std::fprintf(stderr, "the floor has widths 4, 8, 16, 32 and 64. Received: %d\n", dim);
  std::abort();
}

// Of a new record: a row, slots, and in Adam's the last step, 0.
float RecordFloat(int64_t i, int dim) {
  if (i < dim) return 0.01f;
  return i < 3 * dim ? 0.1f : 0;
}

}  // namespace

extern "C" {

void* FloorCreate(int64_t num_tables, int64_t num_records, int dim, int record_floats, int dynamic,
                  int huge) {
  auto* group = new Group;
  group->dim = dim;
  group->stride = record_floats;
  group->output_stride = dim;
  group->tables.resize(num_tables);
#pragma omp parallel for schedule(dynamic, 1)
  for (int64_t t = 0; t < num_tables; ++t) {
    Table& table = group->tables[t];
    table.num_records = dynamic ? 0 : num_records;
    const int64_t floats = num_records * group->stride;
    table.records = static_cast<float*>(Map(floats * sizeof(float), huge));
    table.mapped.emplace_back(table.records, floats * sizeof(float));
    for (int64_t i = 0; i < floats; ++i) table.records[i] = RecordFloat(i % group->stride, dim);
    if (dynamic) {
      uint64_t size = 16;
      while (size < static_cast<uint64_t>(2 * num_records)) size *= 2;
      table.index = static_cast<IndexSlot*>(Map(size * sizeof(IndexSlot), huge));
      table.mapped.emplace_back(table.index, size * sizeof(IndexSlot));
      table.mask = size - 1;
    }
  }
  return group;
}

// Outputs and gradients lie in wider rows from now on.
void FloorSetOutputStride(void* handle, int64_t floats) {
  static_cast<Group*>(handle)->output_stride = floats;
}

void FloorDestroy(void* handle) {
  auto* group = static_cast<Group*>(handle);
  for (Table& table : group->tables) {
    for (auto& [memory, bytes] : table.mapped) munmap(memory, bytes);
  }
  delete group;
}

// Gives every key a record, if it has none.
void FloorInsert(void* handle, int64_t which, const int64_t* keys, int64_t n) {
  Table& table = static_cast<Group*>(handle)->tables[which];
  for (int64_t i = 0; i < n; ++i) {
    uint64_t at = Hash(keys[i]) & table.mask;
    while (table.index[at].record != 0 && table.index[at].key != keys[i])
      at = (at + 1) & table.mask;
    if (table.index[at].record == 0) table.index[at] = {keys[i], ++table.num_records};
  }
}

void FloorLookup(void* handle, const int64_t* const* ids, const int64_t* const* splits,
                 const int64_t* num_ids, int64_t num_bags, float* const* outs, int stream) {
  const Group& group = *static_cast<Group*>(handle);
  WithDim(group.dim, [&](auto dim) {
    Lookup<dim>(group, ids, splits, num_ids, num_bags, outs, stream, AsItStands());
  });
}

// Of Adam's rows, as they are after `step` steps.
void FloorLookupCaughtUp(void* handle, const int64_t* const* ids, const int64_t* const* splits,
                         const int64_t* num_ids, int64_t num_bags, float* const* outs, int stream,
                         int64_t step) {
  const Group& group = *static_cast<Group*>(handle);
  const CaughtUp reader(step, AlphaOf(step));
  WithDim(group.dim, [&](auto dim) {
    Lookup<dim>(group, ids, splits, num_ids, num_bags, outs, stream, reader);
  });
}

void FloorApply(void* handle, int rule, const int64_t* const* ids, const int64_t* const* splits,
                const int64_t* num_ids, int64_t num_bags, const float* const* grads, int64_t step) {
  Group& group = *static_cast<Group*>(handle);
  WithDim(group.dim,
          [&](auto dim) { Update<dim>(group, rule, ids, splits, num_ids, num_bags, grads, step); });
}

}  // extern "C"

}  // namespace plain
