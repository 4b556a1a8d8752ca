// CUDA's runtime beside the driver of fake_driver.c: what TensorFlow's own kernels ask for.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define OK(name) \
  int name() { return 0; }
OK(cudaFuncSetAttribute)
OK(cudaSetDevice) OK(cudaGetLastError) OK(cudaPeekAtLastError) OK(cudaLaunchKernel)
    OK(__cudaPushCallConfiguration) OK(__cudaRegisterFatBinaryEnd) OK(__cudaRegisterFunction)
        OK(__cudaRegisterVar) OK(__cudaUnregisterFatBinary) OK(cudaStreamSynchronize)

            void** __cudaRegisterFatBinary(void* binary) {
  static void* handle[2];
  (void)binary;
  return handle;
}
int __cudaPopCallConfiguration(void* grid, void* block, size_t* shared, void* stream) {
  (void)grid;
  (void)block;
  *shared = 0;
  memset(stream, 0, sizeof(void*));
  return 0;
}
int cudaRuntimeGetVersion(int* version) {
  *version = 12050;
  return 0;
}
int cudaDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
int cudaGetDeviceCount(int* count) {
  *count = 1;
  return 0;
}
int cudaGetDevice(int* device) {
  *device = 0;
  return 0;
}
int cudaDeviceGetAttribute(int* value, int attribute, int device) {
  (void)device;
  *value = attribute == 10 ? 32 : 1024;  // lanes of a warp; threads of a block, and all else
  return 0;
}
int cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return 0;
}
// A struct of a name and some 700 bytes of numbers, each of which is 32 here: none of them is
// used but to size kernels, which do nothing.
int cudaGetDeviceProperties_v2(char* properties, int device) {
  (void)device;
  strcpy(properties, "no GPU");
  for (int i = 256; i < 960; i += 4) memcpy(properties + i, &(int32_t){32}, 4);
  return 0;
}
// The same of a kernel.
int cudaFuncGetAttributes(char* attributes, const void* function) {
  (void)function;
  for (int i = 0; i < 64; i += 4) memcpy(attributes + i, &(int32_t){32}, 4);
  return 0;
}
const char* cudaGetErrorString(int error) {
  (void)error;
  return "an error";
}
const char* cudaGetErrorName(int error) {
  (void)error;
  return "an error";
}
int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int size,
                                                  size_t shared) {
  (void)function;
  (void)size;
  (void)shared;
  *blocks = 2;
  return 0;
}
int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function,
                                                           int size, size_t shared,
                                                           unsigned flags) {
  (void)flags;
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, size, shared);
}
