#include <cxxabi.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "ops/core/base/mutex.h"
#include "ops/core/device/device_code.h"
#include "ops/core/device/device_trace.h"

namespace keras_sparse {
namespace {

struct Recorded {
  TracedWork work;
  const void* kernel;
  cudaEvent_t begin;
  cudaEvent_t end;
};

struct Trace {
  Mutex enqueuing;  // of the scope whose events surround its work
  Mutex mutex;
  std::vector<Recorded> recorded GUARDED_BY(mutex);
  // An event at a known time of the CPU's clock; null before the first work.
  cudaEvent_t origin GUARDED_BY(mutex) = nullptr;
  int64_t origin_time GUARDED_BY(mutex) = 0;
  // What the last trace was.
  std::map<const void*, std::string> names GUARDED_BY(mutex);
  std::vector<TracedWork> works GUARDED_BY(mutex);
};

// Never destroyed: threads may work until the process ends.
Trace& TheTrace() {
  static auto* trace = new Trace();
  return *trace;
}

int64_t Now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

cudaEvent_t EventOn(void* stream) {
  cudaEvent_t event = nullptr;
  (void)cudaEventCreate(&event);
  (void)cudaEventRecord(event, static_cast<cudaStream_t>(stream));
  return event;
}

std::string NameOf(const void* kernel) {
  const char* mangled = nullptr;
  if (cudaFuncGetName(&mangled, kernel) != cudaSuccess || mangled == nullptr) return "a kernel";
  int status = 0;
  char* demangled = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  std::string name = status == 0 ? demangled : mangled;
  std::free(demangled);
  return name;
}

}  // namespace

std::atomic<bool> TraceScope::is_on{false};

void TraceScope::Begin(const char* name, const void* kernel,
                       int64_t bytes) NO_THREAD_SAFETY_ANALYSIS {
  Trace& trace = TheTrace();
  if (has_work_) trace.enqueuing.lock();
  const MutexLock lock(trace.mutex);
  if (has_work_ && trace.origin == nullptr) {
    trace.origin = EventOn(stream_);
    (void)cudaEventSynchronize(trace.origin);
    trace.origin_time = Now();
  }
  place_ = trace.recorded.size();
  const int64_t called = Now();
  trace.recorded.push_back(
      {{name, bytes, called, 0, 0, 0}, kernel, has_work_ ? EventOn(stream_) : nullptr, nullptr});
}

void TraceScope::End() NO_THREAD_SAFETY_ANALYSIS {
  Trace& trace = TheTrace();
  const MutexLock lock(trace.mutex);
  if (place_ < trace.recorded.size()) {  // otherwise the trace has ended
    Recorded& recorded = trace.recorded[place_];
    if (has_work_) recorded.end = EventOn(stream_);
    recorded.work.returned = Now();
  }
  if (has_work_) trace.enqueuing.unlock();
}

void StartTrace() { TraceScope::is_on = true; }

int64_t StopTrace(const TracedWork** works) {
  TraceScope::is_on = false;
  Trace& trace = TheTrace();
  const MutexLock lock(trace.mutex);
  trace.works.clear();
  const auto time_of = [origin = trace.origin, time = trace.origin_time](cudaEvent_t event) {
    float ms = 0;
    (void)cudaEventSynchronize(event);
    (void)cudaEventElapsedTime(&ms, origin, event);
    (void)cudaEventDestroy(event);
    return time + static_cast<int64_t>(double{ms} * 1e6);
  };
  for (const Recorded& each : trace.recorded) {
    TracedWork work = each.work;
    if (each.kernel != nullptr) {
      std::string& name = trace.names[each.kernel];
      if (name.empty()) name = NameOf(each.kernel);
      work.name = name.c_str();
    }
    if (each.begin != nullptr) work.began = time_of(each.begin);
    if (each.end != nullptr) work.ended = time_of(each.end);
    trace.works.push_back(work);
  }
  trace.recorded.clear();
  if (trace.origin != nullptr) (void)cudaEventDestroy(trace.origin);
  trace.origin = nullptr;
  *works = trace.works.data();
  return static_cast<int64_t>(trace.works.size());
}

}  // namespace keras_sparse

// For benchmarks in Python.
extern "C" void keras_sparse_start_trace() { keras_sparse::StartTrace(); }
extern "C" int64_t keras_sparse_stop_trace(const keras_sparse::TracedWork** works) {
  return keras_sparse::StopTrace(works);
}
