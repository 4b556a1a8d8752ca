#include <cxxabi.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "ops/core/base/mutex.h"
#include "ops/core/device/device_code.h"
#include "ops/core/device/device_trace.h"

namespace keras_sparse {
namespace {

struct Recorded {
  const char* name;
  const void* kernel;
  int64_t bytes;
  int64_t called;
  int64_t returned = 0;
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
};

struct Trace {
  Mutex enqueuing;  // of the scope whose events surround its work
  Mutex mutex;
  std::vector<Recorded> recorded GUARDED_BY(mutex);
  int64_t number GUARDED_BY(mutex) = 0;  // of the trace
  // An event at a known time of the CPU's clock; null before the first work.
  cudaEvent_t origin GUARDED_BY(mutex) = nullptr;
  int64_t origin_time GUARDED_BY(mutex) = 0;
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
  number_ = trace.number;
  trace.recorded.push_back({name, kernel, bytes, Now()});
  if (has_work_) trace.recorded.back().begin = EventOn(stream_);
}

void TraceScope::End() NO_THREAD_SAFETY_ANALYSIS {
  Trace& trace = TheTrace();
  const MutexLock lock(trace.mutex);
  if (number_ == trace.number) {  // otherwise the trace has ended
    Recorded& recorded = trace.recorded[place_];
    if (has_work_) recorded.end = EventOn(stream_);
    recorded.returned = Now();
  }
  if (has_work_) trace.enqueuing.unlock();
}

void StartTrace() { TraceScope::is_on = true; }

std::vector<TracedWork> StopTrace() {
  TraceScope::is_on = false;
  Trace& trace = TheTrace();
  const MutexLock lock(trace.mutex);
  const auto time_of = [origin = trace.origin, time = trace.origin_time](cudaEvent_t event) {
    if (event == nullptr) return int64_t{0};
    float ms = 0;
    (void)cudaEventSynchronize(event);
    (void)cudaEventElapsedTime(&ms, origin, event);
    (void)cudaEventDestroy(event);
    return time + static_cast<int64_t>(double{ms} * 1e6);
  };
  std::vector<TracedWork> works;
  for (const Recorded& each : trace.recorded) {
    if (each.returned == 0) continue;  // still under way
    works.push_back({each.kernel == nullptr ? each.name : NameOf(each.kernel), each.bytes,
                     each.called, each.returned, time_of(each.begin), time_of(each.end)});
  }
  trace.recorded.clear();
  ++trace.number;
  if (trace.origin != nullptr) (void)cudaEventDestroy(trace.origin);
  trace.origin = nullptr;
  return works;
}

std::string ToJson(const std::vector<TracedWork>& works) {
  std::string json;
  for (const TracedWork& each : works) {
    json += (json.empty() ? "[{\"name\": \"" : ", {\"name\": \"") + each.name + "\"";
    const auto add = [&json](const char* name, int64_t value) {
      json += std::string(", \"") + name + "\": " + std::to_string(value);
    };
    add("bytes", each.bytes);
    add("called", each.called);
    add("returned", each.returned);
    add("began", each.began);
    add("ended", each.ended);
    json += "}";
  }
  return json.empty() ? "[]" : json + "]";
}

}  // namespace keras_sparse

// For benchmarks in Python. The array is valid until the next call.
extern "C" void keras_sparse_start_trace() { keras_sparse::StartTrace(); }
extern "C" const char* keras_sparse_stop_trace() {
  static std::string json;
  json = keras_sparse::ToJson(keras_sparse::StopTrace());
  return json.c_str();
}
