// FileSystem: files as the stores use them. Tests replace it by one that fails.
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

// An open file; the destructor closes it.
//
// Thread safety: every method may be called from any thread; writes must not overlap in place.
class File {
 public:
  virtual ~File() = default;

  // A failed write may have written any part of its bytes; repeating it writes all of them. Returns
  // ResourceExhausted if the disk is full.
  virtual Status Write(int64_t offset, const char* data, int64_t bytes) = 0;
  // Returns DataLoss if the file ends earlier.
  virtual Status Read(int64_t offset, int64_t bytes, char* to) const = 0;
};

// Errors name the path and, where there is one, the offset.
//
// Thread safety: every method may be called from any thread.
class FileSystem {
 public:
  // Returns the operating system's file system.
  static FileSystem* Posix();

  virtual ~FileSystem() = default;

  // Creates an empty file. Returns FailedPrecondition if the path exists.
  virtual Status CreateFile(const std::string& path, std::unique_ptr<File>* file) = 0;
  // Creates a file that bypasses the page cache and is written in order (see DirectFile). Also
  // returns FailedPrecondition on a file system without direct I/O.
  virtual Status CreateDirectFile(const std::string& path, std::unique_ptr<File>* file) = 0;
  // Opens an existing file for reading. Returns FailedPrecondition if it does not exist.
  virtual Status OpenFile(const std::string& path, std::unique_ptr<File>* file) = 0;
  virtual Status RemoveFile(const std::string& path) = 0;
  // Creates a second name for a file. Returns FailedPrecondition if `second` exists, or is on
  // another file system.
  virtual Status LinkFile(const std::string& path, const std::string& second) = 0;

  // Creates a folder and its parents. Succeeds if it exists.
  virtual Status MakeFolder(const std::string& path) = 0;
  // Removes a folder with its content. Succeeds if it does not exist.
  virtual Status RemoveFolder(const std::string& path) = 0;
  // Returns FailedPrecondition if the folder is not empty.
  virtual Status RemoveEmptyFolder(const std::string& path) = 0;
  // Returns the unique absolute path of an existing file, without links.
  virtual Status Resolve(const std::string& path, std::string* resolved) = 0;
  // Returns the names in a folder, sorted.
  virtual Status List(const std::string& path, std::vector<std::string>* names) = 0;

  // Holds a lock file until the object is destroyed. Returns FailedPrecondition if another process
  // holds it. Within a process the caller ensures that a path is locked only once.
  class Lock {
   public:
    virtual ~Lock() = default;
    // Returns whether the file is still in its place. If not, the lock excludes no other process.
    virtual bool IsInPlace() const = 0;
  };
  virtual Status LockFile(const std::string& path, std::unique_ptr<Lock>* lock) = 0;

  // Calls read(0) to read(n - 1), each of which reads a file, on any threads and with many in
  // flight. Returns the first error in this order; the other reads are still made.
  virtual Status ReadMany(size_t n, const std::function<Status(size_t)>& read) = 0;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_FILES_FILE_SYSTEM_H_
