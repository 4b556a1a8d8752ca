#include "ops/core/stores/leveldb/leveldb_env.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "ops/core/base/background_pool.h"
#include "ops/core/base/per_process.h"

namespace keras_sparse {
namespace {

// As in LevelDB: a fifth of the process's descriptors stay open; other files are opened for each
// read.
constexpr int64_t kShareOfDescriptors = 5;

std::atomic<int64_t> num_open{0};

int64_t MostOpen() {
  rlimit files;
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return 0;
  return static_cast<int64_t>(files.rlim_cur) / kShareOfDescriptors;
}

leveldb::Status LevelDbFailure(const std::string& path, int error) {
  return error == ENOENT ? leveldb::Status::NotFound(path, std::strerror(error))
                         : leveldb::Status::IOError(path, std::strerror(error));
}

class ReadFile : public leveldb::RandomAccessFile {
 public:
  ReadFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {
    if (++num_open <= MostOpen()) return;
    --num_open;
    ::close(std::exchange(descriptor_, -1));
  }

  ~ReadFile() override {
    if (descriptor_ < 0) return;
    ::close(descriptor_);
    --num_open;
  }

  leveldb::Status Read(uint64_t offset, size_t n, leveldb::Slice* result,
                       char* scratch) const override {
    const int descriptor =
        descriptor_ >= 0 ? descriptor_ : ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return LevelDbFailure(path_, errno);
    size_t done = 0;
    ssize_t got = 1;
    while (done < n && got != 0) {
      got = ::pread(descriptor, scratch + done, n - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno != EINTR) break;
      if (got > 0) done += static_cast<size_t>(got);
    }
    const int error = got < 0 ? errno : 0;
    if (descriptor_ < 0) ::close(descriptor);
    if (error != 0) return LevelDbFailure(path_, error);
    *result = leveldb::Slice(scratch, done);
    if (done == n) return leveldb::Status::OK();
    return leveldb::Status::Corruption(
        path_, "it was cut off; " + std::to_string(done) + " of " + std::to_string(n) +
                   " bytes are there at byte offset " + std::to_string(offset));
  }

 private:
  const std::string path_;
  int descriptor_;  // -1: the file is opened for each read
};

struct OneThread : BackgroundPool {
  OneThread() : BackgroundPool(1) {}
};

class UnmappedEnv : public leveldb::EnvWrapper {
 public:
  UnmappedEnv() : EnvWrapper(leveldb::Env::Default()) {}

  leveldb::Status NewRandomAccessFile(const std::string& path,
                                      leveldb::RandomAccessFile** file) override {
    *file = nullptr;
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return LevelDbFailure(path, errno);
    *file = new ReadFile(path, descriptor);
    return leveldb::Status::OK();
  }

  void Schedule(void (*work)(void*), void* argument) override {
    const auto task = [work, argument] { work(argument); };
    if (!OfThisProcess<OneThread>()->Schedule(task, task)) EnvWrapper::Schedule(work, argument);
  }
};

}  // namespace

leveldb::Env* LevelDbEnv() {
  static auto* env = new UnmappedEnv();
  return env;
}

}  // namespace keras_sparse
