// Where the tables of a process keep files.
#ifndef KERAS_SPARSE_OPS_CORE_FILES_STORAGE_FOLDER_H_
#define KERAS_SPARSE_OPS_CORE_FILES_STORAGE_FOLDER_H_

#include <memory>
#include <string>

#include "ops/core/base/status.h"
#include "ops/core/files/file_system.h"

namespace keras_sparse {

// The folder of one table below a storage path. It goes, with everything in it, when the object
// ends; with the last one below a path the lock goes, and the path itself if it was made here and
// is empty then.
//
// A process locks a storage path with its first table there. What it finds below it in folders of
// tables was left behind by a process that was killed, and is removed: in those that have a marker
// beside them, as a folder of such a name may be the user's. Where the path has been
// removed under the process and another process has made it anew, the files there are that one's.
//
// Thread safety: Make and the destructor may be called from any thread.
class StorageFolder {
 public:
  // FailedPrecondition if another process uses the path, also one that this was forked from.
  static Status Make(FileSystem* file_system, const std::string& storage_path,
                     std::unique_ptr<StorageFolder>* folder);
  ~StorageFolder();
  StorageFolder(const StorageFolder&) = delete;
  StorageFolder& operator=(const StorageFolder&) = delete;

  const std::string& path() const { return path_; }

  // Removes the folders of all tables that are left, as the process ends.
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
