// What the work could cost: gather, merge and update in plain C++ with software prefetch, nothing
// around it. No checks, no initial rows, no growth, no persistence: a floor to compare with, not an
// engine.
//
// A table is an array of records (row, then slots) of one fixed width. A dynamic table adds an
// open-addressing index from key to record, half full at most. An update cuts the ids of a table
// into shards by hash, or takes a table as one where there are as many tables as threads. One
// thread takes a shard, finds the distinct ids with a small table, sums the gradients of equal ids
// in registers in the order they came, and updates each record once.
//
// Compiled when a benchmark starts: g++ -O3 -march=native -fopenmp -shared -fPIC.

#include <immintrin.h>
#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

constexpr int kAhead = 8;            // records prefetched before they are needed
constexpr int kProbeGroup = 16;      // keys whose index lines are fetched together
constexpr int64_t kShardIds = 8192;  // ids in a shard, about: its scratch table is then 256 KiB

uint64_t Hash(int64_t key) {
  uint64_t h = static_cast<uint64_t>(key) * 0x9E3779B97F4A7C15ull;
  return h ^ (h >> 32);
}

// Zeroed memory, on huge pages or on 4 KiB pages for certain.
void* Map(size_t bytes, bool huge) {
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
  int stride = 0;  // floats in a record
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

// A write that the caches need not keep: outputs and records are larger than they are.
template <int D>
void CopyRow(float* to, const float* from, bool stream) {
  if (D % 8 == 0 && stream) {  // a row of 4 shares its vector with the next one
    for (int i = 0; i < D; i += 8) _mm256_stream_ps(to + i, _mm256_loadu_ps(from + i));
  } else {
    for (int i = 0; i < D; ++i) to[i] = from[i];
  }
}

// What a lookup reads of a record, and makes of it.
struct AsItStands {
  template <int D>
  static constexpr int kFloats = D;
  template <int D>
  const float* Row(const float* record, float* /*made*/) const {
    return record;
  }
};

// Adam's moves of rows without a gradient, up to the last step: as cheap as they can be had, and no
// more than about right. After k steps a row has moved by momentum / (sqrt(velocity) + epsilon)
// times the sum of their weights, as if all had the learning rate of the last one.
//
//   row (D) | momentum (D) | velocity (D) | step of the last gradient
struct CaughtUp {
  static constexpr int kMostMissed = 256;
  int32_t step = 0;
  float epsilon = 1e-7f;
  float moves[kMostMissed], momentum_left[kMostMissed], velocity_left[kMostMissed];

  CaughtUp(int64_t finished_steps, float alpha) : step(static_cast<int32_t>(finished_steps)) {
    double sum = 0;
    for (int k = 0; k < kMostMissed; ++k) {
      if (k > 0) sum += alpha * std::pow(0.9 / std::sqrt(0.999), k);
      moves[k] = static_cast<float>(sum);
      momentum_left[k] = static_cast<float>(std::pow(0.9, k));
      velocity_left[k] = static_cast<float>(std::pow(0.999, k));
    }
  }

  template <int D>
  static constexpr int kFloats = 3 * D + 1;
  template <int D>
  int Missed(const float* record) const {
    int32_t last;
    std::memcpy(&last, record + 3 * D, sizeof(last));
    return std::min(step - last, kMostMissed - 1);
  }
  template <int D>
  const float* Row(const float* record, float* made) const {
    const int missed = Missed<D>(record);
    if (missed == 0) return record;
    for (int i = 0; i < D; ++i) {
      made[i] =
          record[i] - moves[missed] * record[D + i] / (std::sqrt(record[2 * D + i]) + epsilon);
    }
    return made;
  }
};

template <int D, class Reader>
void Gather(const Group& group, const Table& table, const int64_t* ids, int64_t begin, int64_t end,
            float* out, bool stream, const Reader& reader) {
  float* records[2 * kProbeGroup];
  auto locate = [&](int64_t at) {
    const int64_t n = std::min<int64_t>(kProbeGroup, end - at);
    float** slot = records + (at / kProbeGroup % 2) * kProbeGroup;
    if (n > 0) Locate<D>(group, table, ids + at, n, slot);
    for (int64_t i = 0; i < n; ++i) PrefetchFloats<Reader::template kFloats<D>>(slot[i]);
  };
  // One group's index lines are probed while the rows of the group before are on their way.
  if (table.index != nullptr) {
    for (int64_t i = begin; i < std::min(end, begin + 2 * kProbeGroup); ++i) {
      __builtin_prefetch(&table.index[Hash(ids[i]) & table.mask]);
    }
  }
  for (int64_t at = begin; at < end + kProbeGroup; at += kProbeGroup) {
    if (table.index != nullptr) {
      for (int64_t i = at + kProbeGroup; i < std::min(end, at + 2 * kProbeGroup); ++i) {
        __builtin_prefetch(&table.index[Hash(ids[i]) & table.mask]);
      }
    }
    if (at < end) locate(at);
    const int64_t before = at - kProbeGroup;
    if (before < begin) continue;
    float** slot = records + (before / kProbeGroup % 2) * kProbeGroup;
    for (int64_t i = 0; i < std::min<int64_t>(kProbeGroup, end - before); ++i) {
      alignas(32) float made[D];
      CopyRow<D>(out + (before + i) * D, reader.template Row<D>(slot[i], made), stream);
    }
  }
}

template <int D, class Reader>
void GatherSum(const Group& group, const Table& table, const int64_t* ids, const int64_t* splits,
               int64_t begin_bag, int64_t end_bag, float* out, const Reader& reader) {
  const int64_t end = splits[end_bag];
  int64_t ready = splits[begin_bag];  // records located and prefetched so far
  constexpr int kRing = 64;
  float* ring[kRing];
  auto advance = [&](int64_t to) {
    to = std::min(to, end);
    while (ready < to) {
      const int64_t n = std::min<int64_t>({8, end - ready, kRing - ready % kRing});
      if (table.index != nullptr) {
        for (int64_t i = ready + 16; i < std::min(ready + 24, end); ++i) {
          __builtin_prefetch(&table.index[Hash(ids[i]) & table.mask]);
        }
      }
      Locate<D>(group, table, ids + ready, n, ring + ready % kRing);
      for (int64_t i = 0; i < n; ++i) {
        PrefetchFloats<Reader::template kFloats<D>>(ring[(ready + i) % kRing]);
      }
      ready += n;
    }
  };
  for (int64_t bag = begin_bag; bag < end_bag; ++bag) {
    float sum[D] = {};
    for (int64_t i = splits[bag]; i < splits[bag + 1]; ++i) {
      advance(i + 16);
      float made[D];
      const float* row = reader.template Row<D>(ring[i % kRing], made);
      for (int d = 0; d < D; ++d) sum[d] += row[d];
    }
    for (int d = 0; d < D; ++d) out[bag * D + d] = sum[d];
  }
}

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
    return grads + static_cast<int64_t>(refs == nullptr ? i : refs[i]) * D;
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
Partition partition;
std::vector<Scratch> scratches;

int64_t ShardOf(int64_t id, int64_t num_shards) {
  return static_cast<int64_t>(((Hash(id) >> 40) & 0xffffff) * num_shards >> 24);
}

// Counting sort by shard; two threads count and scatter a half each.
void MakePartition(const int64_t* ids, const int64_t* splits, int64_t num_bags, int64_t n,
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

template <int D, class Reader>
void Lookup(const Group& group, const int64_t* const* ids, const int64_t* const* splits,
            const int64_t* num_ids, int64_t num_bags, float* const* outs, bool stream,
            const Reader& reader) {
  const int64_t num_tables = static_cast<int64_t>(group.tables.size());
  const int64_t pieces = num_tables >= omp_get_max_threads() ? 1 : 8;
#pragma omp parallel for schedule(dynamic, 1)
  for (int64_t task = 0; task < num_tables * pieces; ++task) {
    const int64_t t = task / pieces;
    const int64_t piece = task % pieces;
    const Table& table = group.tables[t];
    if (splits == nullptr) {
      Gather<D>(group, table, ids[t], num_ids[t] * piece / pieces,
                num_ids[t] * (piece + 1) / pieces, outs[t], stream, reader);
    } else {
      GatherSum<D>(group, table, ids[t], splits[t], num_bags * piece / pieces,
                   num_bags * (piece + 1) / pieces, outs[t], reader);
    }
    if (stream) _mm_sfence();  // what this thread wrote past the caches is visible to others
  }
}

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
  if (rule == kAdagrad) Apply<D>(group, ids, splits, num_ids, num_bags, grads, Adagrad{0.01f, 1e-7f});
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

// Writes ones to `bytes` of memory in order, past the caches, on all threads. Memory begins at a
// vector's alignment; a rest of less than a vector stays.
void FloorWriteInOrder(float* memory, int64_t bytes) {
  constexpr int64_t kVectorBytes = 32;
  const int64_t n = bytes / kVectorBytes;
  const __m256 ones = _mm256_set1_ps(1);
#pragma omp parallel
  {
#pragma omp for schedule(static)
    for (int64_t i = 0; i < n; ++i) _mm256_stream_ps(memory + 8 * i, ones);
    _mm_sfence();
  }
}

void* FloorMap(int64_t bytes, int huge) {
  void* memory = Map(bytes, huge);
  std::memset(memory, 1, bytes);
  return memory;
}

void FloorUnmap(void* memory, int64_t bytes) { munmap(memory, bytes); }

}  // extern "C"
