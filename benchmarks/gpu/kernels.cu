// Times what the kernels of tables take on a GPU: a line of JSON each. See kernels.py, which says
// what the names are and how many bytes each has to move.
//
//   keras_sparse_gpu_bench MODEL NUM_ROWS ORDER=FILE...
//     MODEL     a file with the tables of a model and a batch (ModelTable), int64 as in memory
//     NUM_ROWS  of each other table
//     FILE      ids below NUM_ROWS, int64 as in memory
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/device/device_array.h"
#include "ops/core/device/device_trace.h"
#include "ops/core/operations/apply.h"
#include "ops/core/operations/lookup.h"
#include "ops/core/operations/pool_rows.h"
#include "ops/core/operations/row_lookup_result.h"
#include "ops/core/operations/set_rule.h"
#include "ops/core/operations/update_rows.h"
#include "ops/core/table/embedding_table.h"
#include "ops/core/table/table_locks.h"

namespace keras_sparse {
namespace {

constexpr int64_t kBagIds = 16;
constexpr int kCalls = 10;  // timed as one
constexpr int kRounds = 5;
constexpr int kTraced = 3;  // steps

void Check(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::exit(1);
}
void Check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}

// Nanoseconds of the clock of traces.
int64_t Now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

double MsSince(std::chrono::steady_clock::time_point begin) {
  const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - begin;
  return ms.count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Milliseconds that the GPU takes for a call, the median of some rounds.
template <typename Call>
double GpuMs(const Device& device, const Call& call) {
  const auto stream = static_cast<cudaStream_t>(device.stream());
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  Check(cudaEventCreate(&begin));
  Check(cudaEventCreate(&end));
  std::vector<double> times;
  for (int round = -1; round < kRounds; ++round) {  // the first warms up
    Check(cudaEventRecord(begin, stream));
    for (int i = 0; i < kCalls; ++i) call();
    Check(cudaEventRecord(end, stream));
    Check(cudaEventSynchronize(end));
    float ms = 0;
    Check(cudaEventElapsedTime(&ms, begin, end));
    if (round >= 0) times.push_back(ms / kCalls);
  }
  Check(cudaEventDestroy(begin));
  Check(cudaEventDestroy(end));
  return Median(times);
}

// Milliseconds from a call to the end of its work, the median of some.
template <typename Call>
double WallMs(Device* device, const Call& call) {
  std::vector<double> times;
  for (int i = -2; i < kCalls; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    Check(device->Wait());
    if (i >= 0) times.push_back(MsSince(begin));
  }
  return Median(times);
}

struct Ids {
  std::string order;
  DeviceArray<int64_t> ids;
  DeviceArray<int64_t> splits;  // of bags of kBagIds

  int64_t size() const { return ids.size(); }
  Bags None() const { return {Combiner::kNone, size(), size()}; }
  Bags Sums() const { return {Combiner::kSum, size(), size() / kBagIds, splits.data()}; }
};

// A table of a model, and what a batch looks up: sums of bags.
struct ModelTable {
  // What the file has of each table first; splits and ids of each follow.
  struct Sizes {
    int64_t num_rows;
    int64_t dim;
    int64_t num_bags;
    int64_t num_ids;
  } sizes;
  DeviceArray<int64_t> splits;
  DeviceArray<int64_t> ids;
  DeviceArray<float> rows;
  DeviceArray<float> grads;
  std::unique_ptr<EmbeddingTable> table;

  Bags bags() const { return {Combiner::kSum, sizes.num_ids, sizes.num_bags, splits.data()}; }
};

template <typename T>
std::vector<T> ReadFrom(std::ifstream* file, int64_t n) {
  std::vector<T> values(static_cast<size_t>(n));
  file->read(reinterpret_cast<char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(T)));
  return values;
}

void Say(const std::string& name, const std::string& order, int64_t dim, int64_t n, double ms) {
  std::printf("{\"name\": \"%s\", \"ids\": \"%s\", \"dim\": %" PRId64 ", \"n\": %" PRId64
              ", \"ms\": %.5f}\n",
              name.c_str(), order.c_str(), dim, n, ms);
  std::fflush(stdout);
}

class Bench {
 public:
  Bench(std::string model, int64_t num_rows, const std::vector<std::string>& files)
      : model_(std::move(model)), num_rows_(num_rows) {
    std::unique_ptr<Device> device;
    Check(Device::Open(0, &device));
    device_ = std::move(device);
    // CUDA's pool keeps freed memory, as TensorFlow's does, and not only until the next wait.
    cudaMemPool_t pool = nullptr;
    uint64_t kept = UINT64_MAX;
    Check(cudaDeviceGetDefaultMemPool(&pool, 0));
    Check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept));
    for (const std::string& each : files) Read(each);
  }

  void Run() {
    TimeCopies();
    TraceModel();
    for (const char* kind : {"static", "bfloat16", "dynamic"}) TimeTable(kind, 64, "adagrad");
    for (const char* rule : {"sgd", "row_wise_adagrad", "lazy_adam", "adam"}) {
      TimeTable("static", 64, rule);
    }
    for (const int64_t dim : {16, 32, 128}) TimeTable("static", dim, "adagrad");
  }

 private:
  static RuleOptions RuleOf(const std::string& name) {
    if (name == "sgd") return {name, 1, {}};
    if (name.find("adam") != std::string::npos) {
      return {name, 1, {{"beta_1", 0.9}, {"beta_2", 0.999}, {"epsilon", 1e-7}}};
    }
    return {name, 1, {{"initial_accumulator", 0.1}, {"epsilon", 1e-7}}};
  }

  void Read(const std::string& argument) {
    const size_t at = argument.find('=');
    std::ifstream file(argument.substr(at + 1), std::ios::binary | std::ios::ate);
    Ids read;
    read.order = argument.substr(0, at);
    const auto num_ids = static_cast<int64_t>(file.tellg()) / int64_t{sizeof(int64_t)};
    file.seekg(0);
    Check(DeviceArray<int64_t>::Copy(device_.get(), ReadFrom<int64_t>(&file, num_ids), &read.ids));
    std::vector<int64_t> splits;
    for (int64_t i = 0; i <= read.size(); i += kBagIds) splits.push_back(i);
    Check(DeviceArray<int64_t>::Copy(device_.get(), splits, &read.splits));
    ids_.push_back(std::move(read));
  }

  void TimeCopies() {
    constexpr int64_t kBytes = int64_t{1} << 30;
    DeviceArray<char> from;
    DeviceArray<char> to;
    Check(DeviceArray<char>::Allocate(device_.get(), kBytes, &from));
    Check(DeviceArray<char>::Allocate(device_.get(), kBytes, &to));
    void* pinned = nullptr;
    Check(cudaMallocHost(&pinned, kBytes));
    std::fill_n(static_cast<char*>(pinned), kBytes, '\1');
    const auto stream = static_cast<cudaStream_t>(device_->stream());
    const auto copy = [&](const void* source, void* target) {
      return GpuMs(*device_, [&] {
        Check(cudaMemcpyAsync(target, source, kBytes, cudaMemcpyDefault, stream));
      });
    };
    Say("copy to the GPU", "", 0, kBytes, copy(pinned, from.data()));
    Say("copy on the GPU", "", 0, kBytes, copy(from.data(), to.data()));
    Say("copy from the GPU", "", 0, kBytes, copy(to.data(), pinned));
    Check(cudaFreeHost(pinned));
  }

  //   num_rows  -1: a dynamic table
  std::unique_ptr<EmbeddingTable> Open(int64_t num_rows, int64_t dim, const RuleOptions& rule) {
    TableOptions options;
    options.name = "rows";
    options.input_dim = num_rows;
    options.types = rule.types;
    options.output_dim = dim;
    options.initializer = {"uniform", -1, 1, 1};
    options.storage.device = device_;
    std::unique_ptr<EmbeddingTable> table;
    Check(EmbeddingTable::Open(options, &executor_, &table));
    Check(SetRule(table.get(), rule, &executor_));
    return table;
  }

  static ApplyRequest Update(EmbeddingTable* table, const int64_t* ids, const Bags& bags,
                             const float* grads) {
    return {table, {{ids, bags, grads, table->dim()}}, RuleGenerationOf(*table), {0.01f}};
  }

  std::vector<ModelTable> ReadModel() {
    std::ifstream file(model_, std::ios::binary);
    std::vector<ModelTable> tables(static_cast<size_t>(ReadFrom<int64_t>(&file, 1)[0]));
    for (ModelTable& each : tables) each.sizes = ReadFrom<ModelTable::Sizes>(&file, 1)[0];
    for (ModelTable& each : tables) {
      const auto& [num_rows, dim, num_bags, num_ids] = each.sizes;
      Device* device = device_.get();
      Check(
          DeviceArray<int64_t>::Copy(device, ReadFrom<int64_t>(&file, num_bags + 1), &each.splits));
      Check(DeviceArray<int64_t>::Copy(device, ReadFrom<int64_t>(&file, num_ids), &each.ids));
      Check(DeviceArray<float>::Allocate(device, num_bags * dim, &each.rows));
      const std::vector<float> grads(static_cast<size_t>(num_bags * dim), 1e-3f);
      Check(DeviceArray<float>::Copy(device, grads, &each.grads));
      each.table = Open(num_rows, dim, RuleOf("adagrad"));
    }
    return tables;
  }

  // Steps of the tables of a model, as in training: the update takes the rows that the lookup has
  // found.
  void TraceModel() {
    const std::vector<ModelTable> tables = ReadModel();
    std::vector<LookupRequest> lookups;
    std::vector<ApplyRequest> updates;
    for (const ModelTable& each : tables) {
      EmbeddingTable* table = each.table.get();
      lookups.push_back({table, each.ids.data(), each.bags(), each.rows.data()});
      lookups.back().ids_owner = std::make_shared<bool>();  // `ids` outlive it
      updates.push_back(Update(table, each.ids.data(), each.bags(), each.grads.data()));
    }
    const auto step = [&] {
      Check(LookupRows(lookups, &executor_));
      Check(ApplyGradients(updates, &executor_));
    };
    Say("op: step of the model", "", 0, 0, WallMs(device_.get(), step));
    StartTrace();
    std::string steps;
    for (int i = 0; i <= kTraced; ++i) {  // the first warms up
      const int64_t begin = Now();
      step();
      Check(device_->Wait());
      if (i == 0) continue;
      steps += (i > 1 ? ", [" : "[") + std::to_string(begin) + ", " + std::to_string(Now()) + "]";
    }
    std::printf("{\"steps\": [%s], \"works\": %s}\n", steps.c_str(), ToJson(StopTrace()).c_str());
    std::fflush(stdout);
  }

  // All keys below num_rows_, a million at a time.
  void CreateRows(EmbeddingTable* table, const float* grads, int64_t at_once) {
    std::vector<double> times;
    for (int64_t first = 0; first < num_rows_; first += at_once) {
      std::vector<int64_t> keys(static_cast<size_t>(std::min(at_once, num_rows_ - first)));
      std::iota(keys.begin(), keys.end(), first);
      const auto n = static_cast<int64_t>(keys.size());
      DeviceArray<int64_t> on_gpu;
      Check(DeviceArray<int64_t>::Copy(device_.get(), keys, &on_gpu));
      Check(device_->Wait());
      const auto begin = std::chrono::steady_clock::now();
      Check(ApplyGradients({Update(table, on_gpu.data(), {Combiner::kNone, n, n}, grads)},
                           &executor_));
      Check(device_->Wait());
      if (n == at_once) times.push_back(MsSince(begin));
    }
    Say("op: update of new keys", "in order", table->dim(), at_once, Median(times));
  }

  //   kind  "static", "dynamic", or "bfloat16": static, with rows of that type
  void TimeTable(const std::string& kind, int64_t dim, const std::string& name) {
    RuleOptions rule = RuleOf(name);
    if (kind == "bfloat16") rule.types.row = FloatType::kBFloat16;
    const auto table = Open(kind == "dynamic" ? -1 : num_rows_, dim, rule);
    const int64_t n = ids_[0].size();
    DeviceArray<float> rows;
    Check(DeviceArray<float>::Allocate(device_.get(), n * dim, &rows));
    std::vector<float> values(static_cast<size_t>(n * dim));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = 1e-3f * static_cast<float>(static_cast<int64_t>(i * 2654435761u % 2001) - 1000);
    }
    DeviceArray<float> grads;
    Check(DeviceArray<float>::Copy(device_.get(), values, &grads));
    if (kind == "dynamic") CreateRows(table.get(), grads.data(), n);
    // Its steps count on from one order of ids to the next, as those of its records do.
    std::unique_ptr<UpdateRule> own;
    RuleOptions of_dim = rule;
    of_dim.dim = dim;
    Check(UpdateRule::Create(of_dim, &own));
    cuda_impl::HistoryOnDevice history;
    for (const Ids& ids : ids_) {
      TimeKernels(kind, table.get(), ids, rows.data(), grads.data(), own.get(), &history);
    }
  }

  void TimeKernels(const std::string& kind, EmbeddingTable* table, const Ids& ids, float* rows,
                   const float* grads, UpdateRule* rule, cuda_impl::HistoryOnDevice* history) {
    const int64_t dim = table->dim();
    const ReadLocks locks({table});
    const TableState& state = locks[0];
    const auto say = [&](const std::string& name, double ms) {
      Say(kind + " " + name, ids.order, dim, ids.size(), ms);
    };
    cuda_impl::RowLookupResult found;
    const auto find = [&] {
      Check(cuda_impl::RowLookupResult::Find({{&state, ids.ids.data(), ids.size()}}, device_.get(),
                                             &found));
    };
    const bool reads = rule->name() == "adagrad";  // others read alike
    find();
    if (reads) say("find", GpuMs(*device_, find));
    const cuda_impl::IdRows read = {found.table(0), ids.ids.data(), found.rows(0), nullptr};
    if (reads) {
      for (const Bags& bags : {ids.None(), ids.Sums()}) {
        say(bags.combiner == Combiner::kNone ? "gather" : "pool", GpuMs(*device_, [&] {
              Check(cuda_impl::PoolRows({{read, bags, rows}}, device_.get()));
            }));
      }
    }
    say(rule->name(), GpuMs(*device_, [&] {
          rule->BeginStep(std::vector<float>(static_cast<size_t>(rule->num_numbers()), 0.01f));
          const auto num_steps = static_cast<uint32_t>(rule->step() + 1);
          Check(cuda_impl::UpdateRows({{found.table(0),
                                        rule,
                                        history,
                                        num_steps,
                                        {{{ids.ids.data(), ids.None(), grads, dim}, found.rows(0)}},
                                        {state.rounding(), state.tiers.hbm_store()->keys_view()}}},
                                      found.any_refused(), device_.get()));
          rule->FinishStep();
        }));
  }

  const std::string model_;
  const int64_t num_rows_;
  std::shared_ptr<Device> device_;
  InlineExecutor executor_;
  std::vector<Ids> ids_;
};

}  // namespace
}  // namespace keras_sparse

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "keras_sparse_gpu_bench MODEL NUM_ROWS ORDER=FILE...\n");
    return 2;
  }
  keras_sparse::Bench(argv[1], std::atoll(argv[2]), {argv + 3, argv + argc}).Run();
  return 0;
}
