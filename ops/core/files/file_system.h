// Files, as the stores use them. Tests put a FileSystem that fails in the place of the real one.
#ifndef KERAS_SPARSE_OPS_CORE_FILES_FILE_SYSTEM_H_
#define KERAS_SPARSE_OPS_CORE_FILES_FILE_SYSTEM_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/core/base/status.h"

namespace keras_sparse {

// An open file; it is closed with the object.
//
// Thread safety: every method may be called from any thread; writes must not overlap in place.
class File {
 public:
  virtual ~File() = default;

  // A write that failed may have left any part of its bytes; writing it again makes it whole.
  // ResourceExhausted if the disk is full.
  virtual Status Write(int64_t offset, const char* data, int64_t bytes) = 0;
  // DataLoss if the file ends before.
  virtual Status Read(int64_t offset, int64_t bytes, char* to) const = 0;
};

// Errors name the path and, where there is one, the offset.
//
// Thread safety: every method may be called from any thread.
class FileSystem {
 public:
  // That of the operating system.
  static FileSystem* Posix();

  virtual ~FileSystem() = default;

  // An empty file. FailedPrecondition if the path is taken.
  virtual Status CreateFile(const std::string& path, std::unique_ptr<File>* file) = 0;
  // The same for a file past the page cache, which is written in order (see DirectFile).
  // FailedPrecondition also on a file system that has no direct I/O.
  virtual Status CreateDirectFile(const std::string& path, std::unique_ptr<File>* file) = 0;
  // An existing file, to be read. FailedPrecondition if it is not there.
  virtual Status OpenFile(const std::string& path, std::unique_ptr<File>* file) = 0;
  virtual Status RemoveFile(const std::string& path) = 0;
  // A second name for a file. FailedPrecondition if that is on another file system, or taken.
  virtual Status LinkFile(const std::string& path, const std::string& second) = 0;

  // With the folders above it. One that is there already is not an error.
  virtual Status MakeFolder(const std::string& path) = 0;
  // With everything in it. One that is not there is not an error.
  virtual Status RemoveFolder(const std::string& path) = 0;
  // FailedPrecondition if there is something in it.
  virtual Status RemoveEmptyFolder(const std::string& path) = 0;
  // The one absolute path of what is there, without links.
  virtual Status Resolve(const std::string& path, std::string* resolved) = 0;
  // The names in a folder, sorted.
  virtual Status List(const std::string& path, std::vector<std::string>* names) = 0;

  // Holds a lock file until the object ends. FailedPrecondition if another process has it; within a
  // process the caller sees to it that a path is locked once.
  class Lock {
   public:
    virtual ~Lock() = default;
    // Returns whether the file is where it was. If it is not, the lock keeps no process out.
    virtual bool IsInPlace() const = 0;
  };
  virtual Status LockFile(const std::string& path, std::unique_ptr<Lock>* lock) = 0;

  // Calls read(0) to read(n - 1), which read a file each, on any threads and with many in flight.
  // Returns the first error in this order; the other reads are done all the same.
  virtual Status ReadMany(size_t n, const std::function<Status(size_t)>& read) = 0;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_FILES_FILE_SYSTEM_H_
