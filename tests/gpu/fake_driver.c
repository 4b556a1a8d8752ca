// A driver without a GPU, for TensorFlow to make a device GPU:0 of: its memory is the CPU's, copies
// are made, and kernels do nothing. It shows where ops are placed and what is copied, and computes
// nothing. FAKE_GPUS is how many there are, if not one; FAKE_BYTES_TAKEN is what other processes
// have of its memory, 0 at first.
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t Address;
static int context;
static __thread void* current;
static uintptr_t last_handle;

// Numbers of CUdevice_attribute; all others are 0.
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  static const int kValues[][2] = {{1, 1024},                                 // threads of a block
                                   {2, 1024},       {3, 1024},   {4, 64},     // each way
                                   {5, 2147483647}, {6, 65535},  {7, 65535},  // blocks
                                   {8, 49152},                                // shared memory
                                   {10, 32},                                  // lanes of a warp
                                   {12, 65536},                               // registers
                                   {13, 1980000},   {16, 132},   {36, 2619000}, {37, 5120},
                                   {38, 52428800},  {39, 2048},  {41, 1},  // unified addresses
                                   {75, 9},         {76, 0},               // compute capability
                                   {81, 233472},    {82, 65536}, {97, 232448},  {106, 32}};
  (void)device;
  *value = 0;
  for (size_t i = 0; i < sizeof(kValues) / sizeof(kValues[0]); ++i) {
    if (kValues[i][0] == attribute) *value = kValues[i][1];
  }
  return 0;
}

#define OK(name) \
  int name() { return 0; }
OK(cuInit)
OK(cuStreamQuery) OK(cuStreamSynchronize) OK(cuStreamWaitEvent) OK(cuStreamDestroy_v2)
    OK(cuEventRecord) OK(cuEventQuery) OK(cuEventSynchronize) OK(cuEventDestroy_v2)
        OK(cuLaunchKernel) OK(cuModuleUnload) OK(cuDevicePrimaryCtxRelease_v2)
            OK(cuDevicePrimaryCtxSetFlags_v2) OK(cuCtxSynchronize) OK(cuFuncSetAttribute)
                OK(cuFuncSetCacheConfig) OK(cuDeviceCanAccessPeer)

                    int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
int cuDeviceGetCount(int* count) {
  const char* number = getenv("FAKE_GPUS");
  *count = number == NULL ? 1 : atoi(number);
  return 0;
}
int cuDeviceGet(int* device, int number) {
  *device = number;
  return 0;
}
int cuDeviceGetName(char* name, int size, int device) {
  (void)device;
  strncpy(name, "no GPU", (size_t)size);
  return 0;
}
int cuDeviceGetPCIBusId(char* id, int size, int device) {
  snprintf(id, (size_t)size, "0000:%02x:00.0", device + 1);
  return 0;
}
int cuDeviceComputeCapability(int* major, int* minor, int device) {
  (void)device;
  *major = 9;
  *minor = 0;
  return 0;
}
int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  (void)device;
  *bytes = (size_t)4 << 30;
  return 0;
}
int cuDeviceGetUuid_v2(char* uuid, int device) {
  (void)device;
  memset(uuid, 7, 16);
  return 0;
}
static size_t given;  // to this process
static size_t Left() {
  const char* text = getenv("FAKE_BYTES_TAKEN");
  const size_t used = given + (text == NULL ? 0 : (size_t)atoll(text));
  const size_t most = (size_t)3 << 30;
  return used < most ? most - used : 0;
}
int cuMemGetInfo_v2(size_t* free, size_t* total) {
  *free = Left();
  *total = (size_t)4 << 30;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** made, int device) {
  (void)device;
  *made = &context;
  return 0;
}
int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  (void)device;
  *flags = 0;
  *active = 1;
  return 0;
}
int cuCtxGetCurrent(void** of_thread) {
  *of_thread = current;
  return 0;
}
int cuCtxSetCurrent(void* of_thread) {
  current = of_thread;
  return 0;
}
int cuCtxGetDevice(int* device) {
  *device = 0;
  return 0;
}
int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return 0;
}

static int Allocate(void** memory, size_t bytes) {
  return posix_memalign(memory, 4096, bytes > 0 ? bytes : 1) == 0 ? 0 : 2;
}

// Memory that the driver was asked for as pinned: TensorFlow takes a few large pieces.
static struct {
  char* begin;
  size_t bytes;
} pinned[256];
static size_t num_pinned;
int fake_is_pinned(const char* at) {
  for (size_t i = 0; i < num_pinned; ++i) {
    if (at >= pinned[i].begin && at < pinned[i].begin + pinned[i].bytes) return 1;
  }
  return 0;
}

int cuMemAlloc_v2(Address* memory, size_t bytes) {
  if (bytes > Left()) return 2;
  const int error = Allocate((void**)memory, bytes);
  if (error == 0) given += malloc_usable_size((void*)*memory);
  return error;
}
int cuMemHostAlloc(void** memory, size_t bytes, unsigned flags) {
  (void)flags;
  const int error = Allocate(memory, bytes);
  if (error == 0 && num_pinned < sizeof(pinned) / sizeof(pinned[0])) {
    pinned[num_pinned].begin = *memory;
    pinned[num_pinned++].bytes = bytes;
  }
  return error;
}
int cuMemFree_v2(Address memory) {
  given -= malloc_usable_size((void*)memory);
  free((void*)memory);
  return 0;
}
int cuMemFreeHost(void* memory) {
  free(memory);
  return 0;
}
int cuPointerGetAttribute(void* value, int attribute, Address memory) {
  if (attribute == 2) {  // a kind of memory: a GPU's
    *(unsigned*)value = 2;
  } else if (attribute == 9) {
    *(unsigned*)value = 0;
  } else {
    *(Address*)value = memory;
  }
  return 0;
}

static int NewHandle(void** handle) {
  *handle = (void*)(last_handle += 16);
  return 0;
}
int cuStreamCreate(void** stream, unsigned flags) {
  (void)flags;
  return NewHandle(stream);
}
int cuStreamCreateWithPriority(void** stream, unsigned flags, int priority) {
  (void)flags;
  (void)priority;
  return NewHandle(stream);
}
int cuStreamIsCapturing(void* stream, int* status) {
  (void)stream;
  *status = 0;
  return 0;
}
int cuEventCreate(void** event, unsigned flags) {
  (void)flags;
  return NewHandle(event);
}
int cuModuleLoadData(void** module, const void* image) {
  (void)image;
  return NewHandle(module);
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  (void)module;
  (void)name;
  return NewHandle(function);
}
int cuFuncGetAttribute(int* value, int attribute, void* function) {
  (void)function;
  *value = attribute == 0 ? 1024 : 0;
  return 0;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* function, int size,
                                                size_t shared) {
  (void)function;
  (void)size;
  (void)shared;
  *blocks = 2;
  return 0;
}

#define COPY(name)                                                 \
  int name(Address to, Address from, size_t bytes, void* stream) { \
    (void)stream;                                                  \
    memmove((void*)to, (void*)from, bytes);                        \
    return 0;                                                      \
  }
COPY(cuMemcpyHtoD_v2)
COPY(cuMemcpyDtoH_v2) COPY(cuMemcpyDtoD_v2) COPY(cuMemcpyHtoDAsync_v2) COPY(cuMemcpyDtoHAsync_v2)
    COPY(cuMemcpyDtoDAsync_v2) int cuMemsetD8Async(Address memory, unsigned char byte, size_t bytes,
                                                   void* stream) {
  (void)stream;
  memset((void*)memory, byte, bytes);
  return 0;
}
int cuMemsetD32Async(Address memory, unsigned word, size_t words, void* stream) {
  (void)stream;
  for (size_t i = 0; i < words; ++i) ((unsigned*)memory)[i] = word;
  return 0;
}
int cuGetErrorName(int error, const char** name) {
  (void)error;
  *name = "an error";
  return 0;
}
int cuGetErrorString(int error, const char** text) {
  (void)error;
  *text = "an error";
  return 0;
}
