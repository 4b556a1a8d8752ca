// StorageFolder: where the tables of a process keep files.
#ifndef KERAS_SPARSE_OPS_CORE_FILES_STORAGE_FOLDER_H_
#define KERAS_SPARSE_OPS_CORE_FILES_STORAGE_FOLDER_H_

#include <memory>
#include <string>

#include "ops/core/base/status.h"
#include "ops/core/files/file_system.h"

namespace keras_sparse {

// The folder of one table below a storage path. The destructor removes it with its content. The
// last folder below a path also releases the lock, and removes the path if it was created here and
// is empty.
//
// A process locks a storage path with its first table there. It then removes table folders that a
// killed process has left below the path. It removes only folders with a marker beside them,
// because other folders of such a name may be the user's. If the path is removed under the process
// and created again by another process, the files there belong to that process.
//
// Thread safety: Make and the destructor may be called from any thread.
class StorageFolder {
 public:
  // Returns FailedPrecondition if another process uses the path, including the parent of a forked
  // process.
  static Status Make(FileSystem* file_system, const std::string& storage_path,
                     std::unique_ptr<StorageFolder>* folder);
  ~StorageFolder();
  StorageFolder(const StorageFolder&) = delete;
  StorageFolder& operator=(const StorageFolder&) = delete;

  const std::string& path() const { return path_; }

  // Removes the folders of all remaining tables when the process ends.
  static void RemoveAll();

 private:
  struct Root;

  StorageFolder(std::shared_ptr<Root> root, std::string path)
      : root_(std::move(root)), path_(std::move(path)) {}

  std::shared_ptr<Root> root_;
  std::string path_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_FILES_STORAGE_FOLDER_H_
