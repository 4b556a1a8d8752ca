// The CPU's side of ops/core/device/emulated_device.h. Built without sanitizers: what it keeps of
// lanes is its own affair.
#include <ucontext.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "ops/core/device/emulated_device.h"

#ifdef KERAS_SPARSE_THREAD_SANITIZER
extern "C" {
void* __tsan_get_current_fiber(void);
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* at);
void __tsan_release(void* at);
}
#else
static void* __tsan_get_current_fiber() { return nullptr; }
static void* __tsan_create_fiber(unsigned /*flags*/) { return nullptr; }
static void __tsan_destroy_fiber(void* /*fiber*/) {}
static void __tsan_switch_to_fiber(void* /*fiber*/, unsigned /*flags*/) {}
static void __tsan_acquire(void* /*at*/) {}
static void __tsan_release(void* /*at*/) {}
#endif

namespace keras_sparse::emulated {
namespace {

constexpr unsigned kLanesOfWarp = 32;
constexpr size_t kStackBytes = 128 << 10;
constexpr unsigned kNoOrder = 1;  // a switch of fibers orders nothing

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "emulated kernel: %s\n", what);
  std::abort();
}

// SplitMix64. Not one of the standard library: its templates are the sanitized ones of the tests.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t operator()() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

// A place to come back to, of the frame that calls Switch. Unlike swapcontext it asks the system
// for nothing. It keeps no registers: what changes places must be no part of its caller (noipa).
using Place = std::array<void*, 5>;

[[gnu::noipa, noreturn]] void GoTo(Place* place) { __builtin_longjmp(place->data(), 1); }

[[gnu::noipa]] void Switch(Place* from, Place* to) {
  if (__builtin_setjmp(from->data()) == 0) GoTo(to);
}

struct Lane {
  Place place;
  ucontext_t start;
  std::unique_ptr<char[]> stack;
  void* fiber = nullptr;
  unsigned number = 0;
  unsigned waits_for = 0;  // lanes of its warp, by bit
  bool has_started = false;
  bool waits_for_block = false;
  bool is_done = false;
  uint64_t value = 0;
  std::array<uint64_t, kLanesOfWarp> seen;
};

// The lanes of one thread's blocks, whose stacks are used again.
std::vector<Lane>* LanesOfThread(size_t size) {
  static thread_local std::vector<Lane> lanes;
  if (lanes.size() < size) lanes.resize(size);
  return &lanes;
}

class Block;
thread_local Block* running = nullptr;

class Block {
 public:
  Block(unsigned num_blocks, unsigned size, unsigned number, uint64_t seed,
        const std::function<void()>& body, void* start, void* end)
      : num_blocks_(num_blocks),
        size_(size),
        number_(number),
        random_(seed),
        body_(body),
        start_(start),
        end_(end),
        lanes_(LanesOfThread(size)->data()) {
    for (unsigned i = 0; i < size; ++i) {
      Lane& lane = lanes_[i];
      lane.number = i;
      if (lane.stack == nullptr) lane.stack.reset(new char[kStackBytes]);
      lane.waits_for = 0;
      lane.has_started = lane.waits_for_block = lane.is_done = false;
      lane.fiber = __tsan_create_fiber(kNoOrder);
    }
  }

  ~Block() {
    __tsan_acquire(end_);
    for (unsigned i = 0; i < size_; ++i) __tsan_destroy_fiber(lanes_[i].fiber);
  }

  void Run() {
    running = this;
    main_fiber_ = __tsan_get_current_fiber();
    std::vector<Lane*> ready;
    for (unsigned num_done = 0; num_done < size_;) {
      ready.clear();
      num_done = 0;
      for (unsigned i = 0; i < size_; ++i) {
        Lane& lane = lanes_[i];
        num_done += lane.is_done ? 1 : 0;
        if (!lane.is_done && !lane.waits_for_block && lane.waits_for == 0) ready.push_back(&lane);
      }
      if (num_done == size_) return;
      if (ready.empty()) Fail("lanes wait for lanes that do not come");
      // All that can go on, from one of them on: as fair as it is random.
      const size_t first = random_() % ready.size();
      for (size_t i = 0; i < ready.size(); ++i) Resume(ready[(first + i) % ready.size()]);
    }
  }

  void Yield() {
    Lane* lane = current_;
    __tsan_switch_to_fiber(main_fiber_, kNoOrder);
    Switch(&lane->place, &main_);
  }

  void MaybeYield() {
    if (random_() % options().yield_every == 0) Yield();
  }

  const uint64_t* Exchange(unsigned mask, uint64_t value) {
    Lane* lane = current_;
    Lane* warp = lanes_ + (lane->number & ~(kLanesOfWarp - 1));
    const auto in_warp = static_cast<unsigned>(lanes_ + size_ - warp);
    if ((mask >> (lane->number % kLanesOfWarp) & 1) == 0) Fail("a lane must be in its own mask");
    lane->value = value;
    lane->waits_for = mask;
    __tsan_release(&warp->value);
    bool all_wait = true;
    for (unsigned i = 0; i < kLanesOfWarp; ++i) {
      if ((mask >> i & 1) == 0) continue;
      if (i >= in_warp || warp[i].is_done) Fail("a mask names a lane that is not there any more");
      all_wait = all_wait && warp[i].waits_for == mask;
    }
    if (all_wait) {
      ShowValues(mask, warp);
      MaybeYield();
    } else {
      Yield();
    }
    __tsan_acquire(&warp->value);
    return lane->seen.data();
  }

  void Sync() {
    Lane* lane = current_;
    lane->waits_for_block = true;
    __tsan_release(this);
    bool all_wait = true;
    for (unsigned i = 0; i < size_; ++i) {
      all_wait = all_wait && (lanes_[i].is_done || lanes_[i].waits_for_block);
    }
    if (all_wait) {
      for (unsigned i = 0; i < size_; ++i) lanes_[i].waits_for_block = false;
    }
    Yield();
    __tsan_acquire(this);
  }

  void* SharedMemory(size_t bytes) {
    constexpr size_t kMost = 48 << 10;
    if (bytes > kMost) Fail("a block has 48 KiB of shared memory");
    if (shared_ == nullptr) {
      shared_.reset(new char[bytes]);
      shared_bytes_ = bytes;
      __tsan_release(&shared_bytes_);  // to have allocated it is no write of this lane's
    }
    __tsan_acquire(&shared_bytes_);
    if (bytes != shared_bytes_) Fail("a kernel has one object of shared memory");
    return shared_.get();
  }

  unsigned current() const { return current_->number; }
  unsigned number() const { return number_; }
  unsigned size() const { return size_; }
  unsigned num_blocks() const { return num_blocks_; }

 private:
  static void Enter() {
    Block* block = running;
    Lane* lane = block->current_;
    __tsan_acquire(block->start_);
    block->body_();
    __tsan_release(block->end_);
    lane->is_done = true;
    __tsan_switch_to_fiber(block->main_fiber_, kNoOrder);
    GoTo(&block->main_);
  }

  // A lane that another one of its round made wait, or that has ended, stays where it is.
  [[gnu::noipa]] void Resume(Lane* lane) {
    current_ = lane;
    __tsan_switch_to_fiber(lane->fiber, kNoOrder);
    if (__builtin_setjmp(main_.data()) != 0) return;
    Continue(lane);
  }

  [[gnu::noipa, noreturn]] static void Continue(Lane* lane) {
    if (lane->has_started) GoTo(&lane->place);
    lane->has_started = true;
    getcontext(&lane->start);
    lane->start.uc_stack.ss_sp = lane->stack.get();
    lane->start.uc_stack.ss_size = kStackBytes;
    lane->start.uc_link = nullptr;
    makecontext(&lane->start, &Block::Enter, 0);
    setcontext(&lane->start);
    std::abort();
  }

  static void ShowValues(unsigned mask, Lane* warp) {
    for (unsigned i = 0; i < kLanesOfWarp; ++i) {
      if ((mask >> i & 1) == 0) continue;
      for (unsigned j = 0; j < kLanesOfWarp; ++j) {
        warp[i].seen[j] = (mask >> j & 1) != 0 ? warp[j].value : 0xDEADDEADDEADDEADull;
      }
      warp[i].waits_for = 0;
    }
  }

  const unsigned num_blocks_;
  const unsigned size_;
  const unsigned number_;
  Random random_;
  const std::function<void()>& body_;
  void* const start_;
  void* const end_;
  Lane* const lanes_;
  Lane* current_ = nullptr;
  std::unique_ptr<char[]> shared_;
  size_t shared_bytes_ = 0;
  Place main_;
  void* main_fiber_ = nullptr;
};

}  // namespace

Options& options() {
  static Options the_options;
  return the_options;
}

Counts& counts() {
  static Counts the_counts;
  return the_counts;
}

Index ThreadIndex() { return {running->current()}; }
Index BlockIndex() { return {running->number()}; }
Index BlockSize() { return {running->size()}; }
Index GridSize() { return {running->num_blocks()}; }
void MaybeYield() { running->MaybeYield(); }
void SyncBlock() { running->Sync(); }
const uint64_t* Exchange(unsigned mask, uint64_t value) { return running->Exchange(mask, value); }

void* SharedMemory(size_t bytes) { return running->SharedMemory(bytes); }

void RunBlocks(unsigned num_blocks, unsigned block, const std::function<void()>& lane) {
  const StreamTurn turn;
  if (!StartsKernel()) return;
  static uint64_t num_launches = 0;
  const uint64_t seed = options().seed * 0x9E3779B97F4A7C15ull + ++num_launches;
  Random random(seed);
  std::vector<unsigned> order(num_blocks);
  for (unsigned i = 0; i < num_blocks; ++i) order[i] = i;
  for (unsigned i = num_blocks; i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  char start = 0;
  char end = 0;
  __tsan_release(&start);
  std::atomic<unsigned> next{0};
  const auto work = [&] {
    for (unsigned at = next++; at < num_blocks; at = next++) {
      const uint64_t own_seed = seed ^ (order[at] * 0xD1B54A32D192ED03ull);
      Block(num_blocks, block, order[at], own_seed, lane, &start, &end).Run();
    }
  };
  std::vector<std::thread> threads;
  for (int t = 1; t < options().num_threads; ++t) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  __tsan_acquire(&end);
}

}  // namespace keras_sparse::emulated
