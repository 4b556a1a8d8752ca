// What a disk gives: reads of some bytes at random places of files, a number of them at once, by as
// many threads that wait for one read each.
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

namespace {

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

}  // namespace

// Returns the seconds that `num_reads` reads take, or -1 where a file cannot be read.
//   paths  (num_files)
extern "C" double RawReads(const char* const* paths, int num_files, int64_t bytes,
                           int64_t num_reads, int depth, bool direct) {
  const Places places(paths, num_files, bytes, direct);
  std::atomic<int64_t> left{num_reads};
  std::atomic<bool> failed{!places.all_opened()};
  const auto read_some = [&](int thread) {
    std::mt19937_64 random(static_cast<uint64_t>(thread));
    Room room(bytes);
    while (!failed && left.fetch_sub(1) > 0) {
      const auto [file, offset] = places.Draw(&random);
      if (::pread(file, room.data(), static_cast<size_t>(bytes), offset) != bytes) failed = true;
    }
  };
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (int t = 0; t < depth; ++t) threads.emplace_back(read_some, t);
  for (std::thread& thread : threads) thread.join();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return failed ? -1 : seconds.count();
}
