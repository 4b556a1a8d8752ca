// FileSystem over the operating system's files.
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "ops/core/base/io_pool.h"
#include "ops/core/base/per_process.h"
#include "ops/core/files/direct_file.h"
#include "ops/core/files/file_system.h"

namespace keras_sparse {
namespace {

Status FailedCall(const std::string& what, const std::string& path, int error) {
  const bool is_full =
      error == ENOSPC || error == EDQUOT || error == EFBIG || error == EMFILE || error == ENFILE;
  const StatusCode code = is_full        ? StatusCode::kResourceExhausted
                          : error == EIO ? StatusCode::kDataLoss
                                         : StatusCode::kFailedPrecondition;
  return Status(code, "could not " + what + " '" + path + "': " + std::strerror(error));
}

Status FailureAt(const std::string& what, const std::string& path, int64_t offset, int error) {
  return FailedCall(what + " at byte " + std::to_string(offset) + " of", path, error);
}

class PosixFile : public File {
 public:
  PosixFile(std::string path, int descriptor, int64_t block_bytes = 1)
      : path_(std::move(path)), descriptor_(descriptor), block_bytes_(block_bytes) {}
  ~PosixFile() override { ::close(descriptor_); }

  Status Write(int64_t offset, const char* data, int64_t bytes) override {
    for (int64_t done = 0; done < bytes;) {
      const ssize_t written =
          ::pwrite(descriptor_, data + done, static_cast<size_t>(bytes - done), offset + done);
      if (written < 0 && errno == EINTR) continue;
      // A file of blocks (see DirectFile) continues at the last whole block.
      const int64_t taken = written / block_bytes_ * block_bytes_;
      if (taken <= 0) {
        int error = written < 0 ? errno : ENOSPC;
        // At the maximum file size, the system shortens a write to bytes that are not whole blocks.
        if (error == EINVAL && IsBeyondLimit(offset + bytes)) error = EFBIG;
        return FailureAt("write", path_, offset + done, error);
      }
      done += taken;
    }
    return Status::Ok();
  }

  Status Read(int64_t offset, int64_t bytes, char* to) const override {
    for (int64_t done = 0; done < bytes;) {
      const ssize_t got =
          ::pread(descriptor_, to + done, static_cast<size_t>(bytes - done), offset + done);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return FailureAt("read", path_, offset + done, errno);
      if (got == 0) {
        return Status(StatusCode::kDataLoss, "'" + path_ + "' must have " + std::to_string(bytes) +
                                                 " bytes from byte " + std::to_string(offset) +
                                                 ". Received: " + std::to_string(done));
      }
      done += got;
    }
    return Status::Ok();
  }

 private:
  static bool IsBeyondLimit(int64_t end) {
    rlimit limit;
    return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < static_cast<rlim_t>(end);
  }

  std::string path_;
  int descriptor_;
  int64_t block_bytes_;
};

// flock belongs to the open file, so that it ends with the process, however the process ends.
class PosixLock : public FileSystem::Lock {
 public:
  PosixLock(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  ~PosixLock() override { ::close(descriptor_); }

  bool IsInPlace() const override {
    struct stat there;
    struct stat ours;
    return ::stat(path_.c_str(), &there) == 0 && ::fstat(descriptor_, &ours) == 0 &&
           there.st_ino == ours.st_ino && there.st_dev == ours.st_dev;
  }

 private:
  std::string path_;
  int descriptor_;
};

class PosixFileSystem : public FileSystem {
 public:
  // Each segment of each table is an open file, and the default limit of a process is low.
  PosixFileSystem() : process_(::getpid()) {
    rlimit files;
    if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
    files.rlim_cur = files.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &files);
  }

  Status CreateFile(const std::string& path, std::unique_ptr<File>* file) override {
    const int descriptor = ::open(path.c_str(), kCreate, 0644);
    if (descriptor < 0) return FailedCall("create", path, errno);
    *file = std::make_unique<PosixFile>(path, descriptor);
    return Status::Ok();
  }

  Status CreateDirectFile(const std::string& path, std::unique_ptr<File>* file) override {
    const int descriptor = ::open(path.c_str(), kCreate | O_DIRECT, 0644);
    if (descriptor < 0) {
      const int error = errno;
      if (error != EINVAL) return FailedCall("create", path, error);
      (void)::unlink(path.c_str());  // the file exists, but is not open
      return FailedPrecondition("'" + path + "' cannot be opened with O_DIRECT");
    }
    *file = std::make_unique<DirectFile>(
        std::make_unique<PosixFile>(path, descriptor, DirectFile::kBlockBytes));
    return Status::Ok();
  }

  Status OpenFile(const std::string& path, std::unique_ptr<File>* file) override {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return FailedCall("open", path, errno);
    *file = std::make_unique<PosixFile>(path, descriptor);
    return Status::Ok();
  }

  Status RemoveFile(const std::string& path) override {
    if (IsForked()) return NotOurs(path);
    return ::unlink(path.c_str()) == 0 ? Status::Ok() : FailedCall("remove", path, errno);
  }

  Status LinkFile(const std::string& path, const std::string& second) override {
    return ::link(path.c_str(), second.c_str()) == 0
               ? Status::Ok()
               : FailedCall("link '" + path + "' to", second, errno);
  }

  Status MakeFolder(const std::string& path) override {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    return error ? FailedCall("make folder", path, error.value()) : Status::Ok();
  }

  Status RemoveFolder(const std::string& path) override {
    if (IsForked()) return NotOurs(path);
    std::error_code error;
    std::filesystem::remove_all(path, error);
    return error ? FailedCall("remove folder", path, error.value()) : Status::Ok();
  }

  Status RemoveEmptyFolder(const std::string& path) override {
    if (IsForked()) return NotOurs(path);
    return ::rmdir(path.c_str()) == 0 ? Status::Ok() : FailedCall("remove folder", path, errno);
  }

  Status Resolve(const std::string& path, std::string* resolved) override {
    std::error_code error;
    *resolved = std::filesystem::canonical(path, error).string();
    return error ? FailedCall("resolve", path, error.value()) : Status::Ok();
  }

  Status List(const std::string& path, std::vector<std::string>* names) override {
    names->clear();
    DIR* folder = ::opendir(path.c_str());
    if (folder == nullptr) return FailedCall("list", path, errno);
    while (const dirent* entry = ::readdir(folder)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names->push_back(name);
    }
    ::closedir(folder);
    std::sort(names->begin(), names->end());
    return Status::Ok();
  }

  Status LockFile(const std::string& path, std::unique_ptr<Lock>* lock) override {
    while (true) {
      const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
      if (descriptor < 0) return FailedCall("open", path, errno);
      auto taken = std::make_unique<PosixLock>(path, descriptor);
      const int error = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
      // The previous holder may have removed the file between the two calls.
      if (error == 0 && taken->IsInPlace()) {
        *lock = std::move(taken);
        return Status::Ok();
      }
      if (error == EWOULDBLOCK) break;
      if (error != 0) return FailedCall("lock", path, error);
    }
    return FailedPrecondition("'" + path +
                              "' must be held by one process, and another has it; give "
                              "each process a folder of its own");
  }

  Status ReadMany(size_t n, const std::function<Status(size_t)>& read) override {
    return IoPool::Shared()->Run(n, read);
  }

 private:
  static constexpr int kCreate = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;

  // A forked child destroys objects that its parent has created; their files are the parent's.
  bool IsForked() const { return ::getpid() != process_; }
  static Status NotOurs(const std::string& path) {
    return FailedPrecondition("'" + path + "' is for the process to remove that made it");
  }

  const pid_t process_;
};

}  // namespace

FileSystem* FileSystem::Posix() {
  // Objects created before a fork keep the parent's file system.
  return OfThisProcess<PosixFileSystem>();
}

}  // namespace keras_sparse
