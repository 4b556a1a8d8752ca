// What a disk gives: reads of some bytes at random places of files, by as many threads as asked
// for.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

// Returns the seconds that `num_reads` reads take, or -1 where a file cannot be read.
//   paths  (num_files)
extern "C" double RawReads(const char* const* paths, int num_files, int64_t bytes,
                           int64_t num_reads, int num_threads, bool direct) {
  std::vector<int> files;
  std::vector<int64_t> blocks;  // of `bytes`, in each file
  for (int i = 0; i < num_files; ++i) {
    const int file = ::open(paths[i], O_RDONLY | (direct ? O_DIRECT : 0));
    struct stat facts;
    if (file < 0 || ::fstat(file, &facts) != 0) return -1;
    if (facts.st_size < bytes) continue;
    files.push_back(file);
    blocks.push_back(facts.st_size / bytes);
  }
  std::atomic<int64_t> left{num_reads};
  std::atomic<bool> failed{files.empty()};
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (int t = 0; t < num_threads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(static_cast<uint64_t>(t));
      std::vector<char> room(static_cast<size_t>(bytes) + 4096);
      const auto address = reinterpret_cast<uintptr_t>(room.data());
      char* to = room.data() + (4096 - address % 4096) % 4096;
      while (!failed && left.fetch_sub(1) > 0) {
        const size_t file = random() % files.size();
        const auto block = static_cast<int64_t>(random() % static_cast<uint64_t>(blocks[file]));
        if (::pread(files[file], to, static_cast<size_t>(bytes), block * bytes) != bytes) {
          failed = true;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  for (const int file : files) ::close(file);
  return failed ? -1 : taken.count();
}
