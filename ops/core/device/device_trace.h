// A trace of what the CPU asks of a GPU, for benchmarks.
#ifndef KERAS_SPARSE_OPS_CORE_DEVICE_DEVICE_TRACE_H_
#define KERAS_SPARSE_OPS_CORE_DEVICE_DEVICE_TRACE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace keras_sparse {

// Work on the stream, or a wait of the CPU for it. Times are nanoseconds of the CPU's steady clock.
struct TracedWork {
  std::string name;  // a kernel as C++ declares it, or what the scope was given
  int64_t bytes;     // of a copy or fill
  int64_t called;    // when the CPU asked for it
  int64_t returned;  // when the CPU continued
  int64_t began;     // when the GPU began and ended; both 0 for a wait
  int64_t ended;
};

// During its lifetime, the calling thread enqueues one kernel, copy or fill, or waits. Records that
// while a trace is on, by events of CUDA around it, which take a microsecond each of the stream;
// other threads enqueue nothing meanwhile. Otherwise it costs a branch.
class TraceScope {
 public:
  // A wait.
  explicit TraceScope(const char* name) {
    if (is_on) Begin(name, nullptr, 0);
  }
  // Work on a stream.
  //   kernel  a function whose name is recorded instead of `name`, or null
  TraceScope(const char* name, const void* kernel, void* stream, int64_t bytes = 0)
      : has_work_(true), stream_(stream) {
    if (is_on) Begin(name, kernel, bytes);
  }
  ~TraceScope() {
    if (place_ != kNowhere) End();
  }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

  static std::atomic<bool> is_on;

 private:
  static constexpr size_t kNowhere = SIZE_MAX;

  void Begin(const char* name, const void* kernel, int64_t bytes);
  void End();

  const bool has_work_ = false;
  void* const stream_ = nullptr;
  size_t place_ = kNowhere;  // in the trace of this number
  int64_t number_ = 0;
};

// Starts a trace of all threads of the process. The first work waits for its stream, by which the
// clocks of CPU and GPU are compared.
void StartTrace();
// Ends the trace, waits for its work and returns it in the order of the calls.
std::vector<TracedWork> StopTrace();
// Returns a JSON array with an object for each.
std::string ToJson(const std::vector<TracedWork>& works);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_DEVICE_DEVICE_TRACE_H_
