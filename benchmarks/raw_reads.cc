// What a disk gives: reads of some bytes at random places of files, a number of them at once, by as
// many threads that wait for one read each, or by io_uring.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <thread>
#include <utility>
#include <vector>
#if __has_include(<liburing.h>)
#include <liburing.h>
#endif

namespace {

constexpr int kRings = 2;  // a thread each, as one cannot ask for all that the page cache gives

// The files, cut into places of `bytes`.
class Places {
 public:
  Places(const char* const* paths, int num_files, int64_t bytes, bool direct) : bytes_(bytes) {
    for (int i = 0; i < num_files; ++i) {
      const int file = ::open(paths[i], O_RDONLY | (direct ? O_DIRECT : 0));
      struct stat facts;
      if (file < 0 || ::fstat(file, &facts) != 0) {
        all_opened_ = false;
        continue;
      }
      files_.push_back(file);
      blocks_.push_back(facts.st_size / bytes);
    }
    all_opened_ = all_opened_ && std::any_of(blocks_.begin(), blocks_.end(),
                                             [](int64_t blocks) { return blocks > 0; });
  }
  ~Places() {
    for (const int file : files_) ::close(file);
  }
  bool all_opened() const { return all_opened_; }
  // File and byte of one of them.
  std::pair<int, int64_t> Draw(std::mt19937_64* random) const {
    size_t file = (*random)() % files_.size();
    while (blocks_[file] == 0) file = (*random)() % files_.size();
    const auto block = static_cast<int64_t>((*random)() % static_cast<uint64_t>(blocks_[file]));
    return {files_[file], block * bytes_};
  }

 private:
  const int64_t bytes_;
  bool all_opened_ = true;
  std::vector<int> files_;
  std::vector<int64_t> blocks_;  // of each file
};

// Room for reads, from a block's border on, as direct I/O wants it.
class Room {
 public:
  explicit Room(int64_t bytes) : bytes_(static_cast<size_t>(bytes) + 4096) {}
  char* data() {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
    return bytes_.data() + (4096 - address % 4096) % 4096;
  }

 private:
  std::vector<char> bytes_;
};

// Calls `work` on each of the threads with its number; returns the seconds that all take.
template <typename Work>
double OnThreads(int num_threads, const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (int t = 0; t < num_threads; ++t) threads.emplace_back([&work, t] { work(t); });
  for (std::thread& thread : threads) thread.join();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

// Returns the seconds that `num_reads` reads take, or -1 where a file cannot be read.
//   paths  (num_files)
extern "C" double RawReads(const char* const* paths, int num_files, int64_t bytes,
                           int64_t num_reads, int depth, bool direct) {
  const Places places(paths, num_files, bytes, direct);
  std::atomic<int64_t> left{num_reads};
  std::atomic<bool> failed{!places.all_opened()};
  const double seconds = OnThreads(depth, [&](int thread) {
    std::mt19937_64 random(static_cast<uint64_t>(thread));
    Room room(bytes);
    while (!failed && left.fetch_sub(1) > 0) {
      const auto [file, offset] = places.Draw(&random);
      if (::pread(file, room.data(), static_cast<size_t>(bytes), offset) != bytes) failed = true;
    }
  });
  return failed ? -1 : seconds;
}

// The same by io_uring; -1 also where this was built without it, or the system refuses it.
extern "C" double RawReadsByRing(const char* const* paths, int num_files, int64_t bytes,
                                 int64_t num_reads, int depth, bool direct) {
#if __has_include(<liburing.h>)
  const Places places(paths, num_files, bytes, direct);
  std::atomic<bool> failed{!places.all_opened()};
  const int ring_depth = depth / kRings;
  const double seconds = OnThreads(kRings, [&](int thread) {
    io_uring ring;
    if (failed || ::io_uring_queue_init(static_cast<unsigned>(ring_depth), &ring, 0) != 0) {
      failed = true;
      return;
    }
    std::mt19937_64 random(static_cast<uint64_t>(thread));
    std::vector<Room> rooms(static_cast<size_t>(ring_depth), Room(bytes));
    std::vector<Room*> idle;
    for (Room& room : rooms) idle.push_back(&room);
    int64_t asked = 0;
    for (int64_t done = 0; done < num_reads / kRings && !failed;) {
      for (; !idle.empty() && asked < num_reads / kRings; ++asked) {
        const auto [file, offset] = places.Draw(&random);
        io_uring_sqe* read = ::io_uring_get_sqe(&ring);
        ::io_uring_prep_read(read, file, idle.back()->data(), static_cast<unsigned>(bytes),
                             static_cast<uint64_t>(offset));
        ::io_uring_sqe_set_data(read, idle.back());
        idle.pop_back();
      }
      if (::io_uring_submit_and_wait(&ring, 1) < 0) failed = true;
      io_uring_cqe* finished = nullptr;
      while (::io_uring_peek_cqe(&ring, &finished) == 0) {
        if (finished->res != bytes) failed = true;
        idle.push_back(static_cast<Room*>(::io_uring_cqe_get_data(finished)));
        ::io_uring_cqe_seen(&ring, finished);
        ++done;
      }
    }
    ::io_uring_queue_exit(&ring);
  });
  return failed ? -1 : seconds;
#else
  (void)paths, (void)num_files, (void)bytes, (void)num_reads, (void)depth, (void)direct;
  return -1;
#endif
}
