// The memory and the stream of the emulated GPU: ops/core/device/emulated_device.h.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "ops/core/device/emulated_device.h"

namespace {

#ifdef KERAS_SPARSE_SANITIZED
// Sanitizers know where a block ends.
void* TakeBlock(size_t bytes) {
  void* block = nullptr;
  return posix_memalign(&block, 256, bytes) == 0 ? block : nullptr;
}
void GiveBack(void* block, size_t) { std::free(block); }
void GiveAllBack() {}
void Open() {}
void Close() {}
#else
// Pages that only kernels and copies may touch, as pointers to a GPU's memory mean nothing to the
// CPU. All of these need a turn of the stream.
constexpr size_t kArena = size_t{1} << 40;  // of addresses
constexpr size_t kPage = 4096;
char* arena = nullptr;
size_t used = 0;  // bytes of it
std::map<size_t, std::vector<void*> > free_blocks;

bool is_open = true;
uint64_t state = 1;  // of random numbers

void Protect(int protection) {
  if (used > 0 && mprotect(arena, used, protection) != 0) std::abort();
}
void Open() {
  if (!is_open) Protect(PROT_READ | PROT_WRITE);
  is_open = true;
}
// After one turn in 32: each time takes the system as long as a small kernel takes here.
void Close() {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  is_open = state >> 59 != 0;
  if (!is_open) Protect(PROT_NONE);
}

void Explain(int number, siginfo_t* info, void*) {
  const char* at = static_cast<const char*>(info->si_addr);
  constexpr char kWhat[] = "the CPU used the memory of the emulated GPU\n";
  if (at >= arena && at < arena + used) (void)!write(STDERR_FILENO, kWhat, sizeof(kWhat) - 1);
  (void)std::signal(number, SIG_DFL);  // and the same again
}

// Powers of two, so that blocks of a few sizes are used again.
size_t SizeOf(size_t bytes) {
  size_t size = kPage;
  while (size < bytes) size *= 2;
  return size;
}

void* TakeBlock(size_t bytes) {
  if (arena == nullptr) {
    void* mapped =
        mmap(nullptr, kArena, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    arena = static_cast<char*>(mapped);
    struct sigaction action = {};
    action.sa_sigaction = Explain;
    action.sa_flags = SA_SIGINFO;
    (void)sigaction(SIGSEGV, &action, nullptr);
  }
  const size_t size = SizeOf(bytes);
  std::vector<void*>& blocks = free_blocks[size];
  if (!blocks.empty()) {
    void* block = blocks.back();
    blocks.pop_back();
    return block;
  }
  if (size > kArena - used) return nullptr;
  void* block = arena + used;
  used += size;
  return mprotect(block, size, PROT_READ | PROT_WRITE) == 0 ? block : nullptr;
}
void GiveBack(void* block, size_t bytes) { free_blocks[SizeOf(bytes)].push_back(block); }
// Where nothing is held, as between tests: what protection costs grows with the bytes used.
void GiveAllBack() {
  (void)madvise(arena, used, MADV_DONTNEED);
  used = 0;
  free_blocks.clear();
}
#endif

std::atomic<size_t> held{0};
std::mutex stream;
constexpr size_t kHeader = 256;  // of an allocation: its size
constexpr int kNone = -1;
thread_local int current = kNone;  // the GPU of this thread
std::atomic<unsigned> contexts{0};

}  // namespace

keras_sparse::emulated::StreamTurn::StreamTurn() {
  stream.lock();
  Open();
}
keras_sparse::emulated::StreamTurn::~StreamTurn() {
  Close();
  stream.unlock();
}

// REQUIRES: a turn of the stream
bool keras_sparse::emulated::DoesWork() {
  if (options().work_left <= 0) return false;
  --options().work_left;
  return true;
}

bool keras_sparse::emulated::StartsKernel() {
  if (!DoesWork()) return false;
  ++counts().launches;
  return true;
}

// For tests in Python.
extern "C" void keras_sparse_emulated_fail_after(int64_t work) {
  keras_sparse::emulated::options().work_left = work;
}
extern "C" const keras_sparse::emulated::Counts* keras_sparse_emulated_counts() {
  return &keras_sparse::emulated::counts();
}

bool keras_sparse::emulated::ThreadHasContext() { return current != kNone; }
std::atomic<unsigned>& keras_sparse::emulated::gpus_with_contexts() { return contexts; }

// As of CUDA 12, it makes a context where there is none.
cudaError_t cudaSetDevice(int device) {
  current = device;
  contexts |= 1u << device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current == kNone ? 0 : current;
  return cudaSuccess;
}

// As a GPU's: aligned to 256 bytes, of no defined content.
cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t /*stream*/) {
  const keras_sparse::emulated::StreamTurn turn;
  keras_sparse::emulated::Options& options = keras_sparse::emulated::options();
  if (options.work_left <= 0) return cudaErrorIllegalAddress;
  if (bytes > options.memory - held || options.allocations_left <= 0) {
    return cudaErrorMemoryAllocation;
  }
  --options.allocations_left;
  void* block = TakeBlock(bytes + kHeader);
  if (block == nullptr) return cudaErrorMemoryAllocation;
  std::memcpy(block, &bytes, sizeof(bytes));
  held += bytes;
  *memory = static_cast<char*>(block) + kHeader;
  std::memset(*memory, 0xCD, bytes);
  return cudaSuccess;
}

cudaError_t cudaFreeAsync(void* memory, cudaStream_t /*stream*/) {
  if (memory == nullptr) return cudaSuccess;
  const keras_sparse::emulated::StreamTurn turn;
  void* block = static_cast<char*>(memory) - kHeader;
  size_t bytes;
  std::memcpy(&bytes, block, sizeof(bytes));
  held -= bytes;
  GiveBack(block, bytes + kHeader);
  if (held == 0) GiveAllBack();
  return cudaSuccess;
}

// Kernels are functions of one source, which only the symbol table of their file names.
cudaError_t cudaFuncGetName(const char** name, const void* kernel) {
  Dl_info file;
  if (dladdr(kernel, &file) == 0) return cudaErrorIllegalAddress;
  static auto* names = new std::map<size_t, std::string>();  // by the place in the file
  if (names->empty()) {
    std::FILE* symbols = popen((std::string("nm --defined-only ") + file.dli_fname).c_str(), "r");
    size_t place = 0;
    char kind = 0;
    char symbol[4096];
    while (std::fscanf(symbols, "%zx %c %4095s", &place, &kind, symbol) == 3) {
      (*names)[place] = symbol;
    }
    (void)pclose(symbols);
  }
  const auto found = names->find(static_cast<size_t>(static_cast<const char*>(kernel) -
                                                     static_cast<const char*>(file.dli_fbase)));
  if (found == names->end()) return cudaErrorIllegalAddress;
  *name = found->second.c_str();
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = keras_sparse::emulated::options().memory;
  *free = *total - held;
  return cudaSuccess;
}
