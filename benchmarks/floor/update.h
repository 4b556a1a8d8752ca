// Updates of plain C++. The ids of a table are cut into shards by hash, or a table is taken as one
// where there are as many tables as threads. One thread takes a shard, finds the distinct ids with
// a small table, sums the gradients of equal ids in registers in the order they came, and updates
// each record once.
#ifndef KERAS_SPARSE_BENCHMARKS_FLOOR_UPDATE_H_
#define KERAS_SPARSE_BENCHMARKS_FLOOR_UPDATE_H_

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "lookup.h"
#include "tables.h"

namespace plain {

constexpr int kAhead = 8;            // records prefetched before they are needed
constexpr int64_t kShardIds = 8192;  // ids in a shard, about: its scratch table is then 256 KiB

struct Sgd {
  template <int D>
  static constexpr int kFloats = D;
  float learning_rate;
  template <int D>
  void Update(float* r, const float* g) const {
    for (int i = 0; i < D; ++i) r[i] -= learning_rate * g[i];
  }
};

struct Adagrad {
  template <int D>
  static constexpr int kFloats = 2 * D;
  float learning_rate, epsilon;
  template <int D>
  void Update(float* r, const float* g) const {
    float* a = r + D;
    for (int i = 0; i < D; ++i) {
      const float sum = a[i] + g[i] * g[i];
      a[i] = sum;
      r[i] -= learning_rate * g[i] / std::sqrt(sum + epsilon);
    }
  }
};

struct LazyAdam {
  template <int D>
  static constexpr int kFloats = 3 * D;
  float alpha, one_minus_beta_1, one_minus_beta_2, epsilon;
  template <int D>
  void Update(float* r, const float* g) const {
    float* m = r + D;
    float* v = r + 2 * D;
    for (int i = 0; i < D; ++i) {
      const float mean = m[i] + one_minus_beta_1 * (g[i] - m[i]);
      const float square = v[i] + one_minus_beta_2 * (g[i] * g[i] - v[i]);
      m[i] = mean;
      v[i] = square;
      r[i] -= alpha * mean / (std::sqrt(square) + epsilon);
    }
  }
};

// LazyAdam of a row that is caught up first.
struct Adam {
  template <int D>
  static constexpr int kFloats = CaughtUp::kFloats<D>;
  LazyAdam lazy;
  CaughtUp caught_up;
  template <int D>
  void Update(float* r, const float* g) const {
    const int missed = caught_up.Missed<D>(r);
    if (missed > 0) {
      caught_up.Row<D>(r, r);
      for (int i = 0; i < D; ++i) r[D + i] *= caught_up.momentum_left[missed];
      for (int i = 0; i < D; ++i) r[2 * D + i] *= caught_up.velocity_left[missed];
    }
    lazy.Update<D>(r, g);
    const int32_t step = caught_up.step + 1;
    std::memcpy(r + 3 * D, &step, sizeof(step));
  }
};

// The distinct ids of a shard, and for each the positions where it occurs, as a chain.
struct Scratch {
  struct Entry {
    int64_t id;
    int32_t unique;
    uint32_t generation;
  };
  std::vector<Entry> entries;
  std::vector<int64_t> unique_ids;
  std::vector<int32_t> head, tail, next;
  std::vector<int32_t> bags;  // that each id is in
  std::vector<float*> records;
  uint32_t generation = 0;

  const int32_t* BagOfEach(const int64_t* splits, int64_t num_bags) {
    bags.resize(splits[num_bags]);
    for (int64_t bag = 0; bag < num_bags; ++bag) {
      std::fill(bags.begin() + splits[bag], bags.begin() + splits[bag + 1], bag);
    }
    return bags.data();
  }

  int64_t Merge(const int64_t* ids, int64_t n) {
    size_t size = 16;
    while (size < static_cast<size_t>(2 * n)) size *= 2;
    if (entries.size() < size) {
      entries.assign(size, {});
      generation = 0;
    }
    if (static_cast<int64_t>(next.size()) < n) {
      for (auto* v : {&head, &tail, &next}) v->resize(n);
      unique_ids.resize(n);
      records.resize(n);
    }
    ++generation;
    const uint64_t mask = size - 1;
    int64_t num_unique = 0;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t id = ids[i];
      next[i] = -1;
      for (uint64_t at = (Hash(id) >> 7) & mask;; at = (at + 1) & mask) {
        Entry& entry = entries[at];
        if (entry.generation != generation) {
          entry = {id, static_cast<int32_t>(num_unique), generation};
          unique_ids[num_unique] = id;
          head[num_unique] = tail[num_unique] = static_cast<int32_t>(i);
          ++num_unique;
          break;
        }
        if (entry.id == id) {
          next[tail[entry.unique]] = static_cast<int32_t>(i);
          tail[entry.unique] = static_cast<int32_t>(i);
          break;
        }
      }
    }
    return num_unique;
  }
};

// Updates every distinct row of one shard.
//   refs  (n)  which row of `grads` an id's gradient is; null: its own position
template <int D, class Rule>
void ApplyShard(const Group& group, const Table& table, const int64_t* ids, const int32_t* refs,
                int64_t n, const float* grads, const Rule& rule, Scratch* s) {
  const int64_t num_unique = s->Merge(ids, n);
  auto grad = [&](int32_t i) {
    return grads + static_cast<int64_t>(refs == nullptr ? i : refs[i]) * group.output_stride;
  };
  int64_t located = 0;
  auto advance = [&](int64_t to) {
    to = std::min(to, num_unique);
    while (located < to) {
      const int64_t m = std::min<int64_t>(kAhead, num_unique - located);
      if (table.index != nullptr) {
        for (int64_t i = located + kAhead; i < std::min(located + 3 * kAhead, num_unique); ++i) {
          __builtin_prefetch(&table.index[Hash(s->unique_ids[i]) & table.mask]);
        }
      }
      Locate<D>(group, table, s->unique_ids.data() + located, m, s->records.data() + located);
      for (int64_t i = located; i < located + m; ++i) {
        PrefetchFloats<Rule::template kFloats<D>>(s->records[i]);
        PrefetchFloats<D>(grad(s->head[i]));
      }
      located += m;
    }
  };
  for (int64_t u = 0; u < num_unique; ++u) {
    advance(u + 1 + kAhead);
    const int32_t head = s->head[u];
    if (s->next[head] < 0) {
      rule.template Update<D>(s->records[u], grad(head));
      continue;
    }
    float sum[D];
    const float* g = grad(head);
    for (int d = 0; d < D; ++d) sum[d] = g[d];
    for (int32_t i = s->next[head]; i >= 0; i = s->next[i]) {
      if (s->next[i] >= 0) PrefetchFloats<D>(grad(s->next[i]));
      g = grad(i);
      for (int d = 0; d < D; ++d) sum[d] += g[d];
    }
    rule.template Update<D>(s->records[u], sum);
  }
}

// The ids of one table in the order of their shards.
struct Partition {
  std::vector<int64_t> ids;
  std::vector<int32_t> refs;
  std::vector<int64_t> begins;
};
inline Partition partition;
inline std::vector<Scratch> scratches;

inline int64_t ShardOf(int64_t id, int64_t num_shards) {
  return static_cast<int64_t>(((Hash(id) >> 40) & 0xffffff) * num_shards >> 24);
}

// Counting sort by shard; two threads count and scatter a half each.
inline void MakePartition(const int64_t* ids, const int64_t* splits, int64_t num_bags, int64_t n,
                          int64_t num_shards) {
  partition.ids.resize(n);
  partition.refs.resize(n);
  const int threads = omp_get_max_threads();
  std::vector<std::vector<int64_t>> offsets(threads, std::vector<int64_t>(num_shards));
#pragma omp parallel num_threads(threads)
  {
    const int t = omp_get_thread_num();
    const int64_t first = splits == nullptr ? n * t / threads : num_bags * t / threads;
    const int64_t last = splits == nullptr ? n * (t + 1) / threads : num_bags * (t + 1) / threads;
    const int64_t begin = splits == nullptr ? first : splits[first];
    const int64_t end = splits == nullptr ? last : splits[last];
    int64_t* mine = offsets[t].data();
    for (int64_t i = begin; i < end; ++i) ++mine[ShardOf(ids[i], num_shards)];
#pragma omp barrier
#pragma omp single
    {
      partition.begins.assign(num_shards + 1, 0);
      int64_t total = 0;
      for (int64_t shard = 0; shard < num_shards; ++shard) {
        partition.begins[shard] = total;
        for (int k = 0; k < threads; ++k) {
          const int64_t count = offsets[k][shard];
          offsets[k][shard] = total;
          total += count;
        }
      }
      partition.begins[num_shards] = total;
    }
    auto place = [&](int64_t i, int64_t ref) {
      const int64_t to = mine[ShardOf(ids[i], num_shards)]++;
      partition.ids[to] = ids[i];
      partition.refs[to] = static_cast<int32_t>(ref);
    };
    if (splits == nullptr) {
      for (int64_t i = begin; i < end; ++i) place(i, i);
    } else {
      for (int64_t bag = first; bag < last; ++bag) {
        for (int64_t i = splits[bag]; i < splits[bag + 1]; ++i) place(i, bag);
      }
    }
  }
}

template <int D, class Rule>
void Apply(Group& group, const int64_t* const* ids, const int64_t* const* splits,
           const int64_t* num_ids, int64_t num_bags, const float* const* grads, const Rule& rule) {
  const int threads = omp_get_max_threads();
  if (static_cast<int>(scratches.size()) < threads) scratches.resize(threads);
  const int64_t num_tables = static_cast<int64_t>(group.tables.size());
  if (num_tables >= threads) {  // a table is a shard
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t t = 0; t < num_tables; ++t) {
      Scratch& scratch = scratches[omp_get_thread_num()];
      const int32_t* refs = splits == nullptr ? nullptr : scratch.BagOfEach(splits[t], num_bags);
      ApplyShard<D>(group, group.tables[t], ids[t], refs, num_ids[t], grads[t], rule, &scratch);
    }
    return;
  }
  for (int64_t t = 0; t < num_tables; ++t) {
    const int64_t num_shards = std::max<int64_t>(threads, 2 * (num_ids[t] / kShardIds / 2 + 1));
    MakePartition(ids[t], splits == nullptr ? nullptr : splits[t], num_bags, num_ids[t],
                  num_shards);
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t shard = 0; shard < num_shards; ++shard) {
      const int64_t begin = partition.begins[shard];
      ApplyShard<D>(group, group.tables[t], partition.ids.data() + begin,
                    partition.refs.data() + begin, partition.begins[shard + 1] - begin, grads[t],
                    rule, &scratches[omp_get_thread_num()]);
    }
  }
}

}  // namespace plain

#endif  // KERAS_SPARSE_BENCHMARKS_FLOOR_UPDATE_H_
