#include "ops/core/files/storage_folder.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "ops/core/base/background_pool.h"
#include "ops/core/base/mutex.h"

namespace keras_sparse {
namespace {

constexpr char kLockName[] = "/keras_sparse.lock";
// Prefixes of a table's folder, and of the empty file beside it that marks it as created here: a
// storage path may contain folders of the user's, whatever their names.
constexpr char kTablePrefix[] = "keras_sparse-table-";
constexpr char kMarkerPrefix[] = "keras_sparse.own-";

bool IsMarker(const std::string& name) {
  const std::string prefix = kMarkerPrefix;
  return name.size() > prefix.size() && name.compare(0, prefix.size(), prefix) == 0 &&
         name.find_first_not_of("0123456789", prefix.size()) == std::string::npos;
}

std::string MarkerOf(std::string folder) {
  return folder.replace(folder.rfind(kTablePrefix), sizeof(kTablePrefix) - 1, kMarkerPrefix);
}

Status NoPlaceForFiles(const Status& status) {
  return Status(status.code(),
                "`storage_path` must be a folder in which this process, and no other one at the "
                "same time, can make files. Received: " +
                    status.message());
}

// Guards all paths in use, and the creation and removal of their roots.
Mutex& RootsMutex() {
  static auto* mutex = new Mutex();
  return *mutex;
}

}  // namespace

// A storage path that this process has locked.
struct StorageFolder::Root {
  FileSystem* const file_system;
  const std::string path;
  const bool is_made;     // created here, not a folder that already existed
  const int64_t process;  // a forked child must not touch the files
  std::unique_ptr<FileSystem::Lock> lock GUARDED_BY(RootsMutex()) = nullptr;
  // Whether the files of other processes were removed since the path was locked.
  bool is_clear GUARDED_BY(RootsMutex()) = false;
  bool is_gone GUARDED_BY(RootsMutex()) = false;
  int64_t num_made GUARDED_BY(RootsMutex()) = 0;
  std::set<std::string> folders GUARDED_BY(RootsMutex()) = {};  // of the tables

  // If someone removes the path under the process, others may use it: the process locks it again,
  // and removes the files that they have left.
  Status HoldLock() REQUIRES(RootsMutex());
  Status MakeFolder(std::string* folder) REQUIRES(RootsMutex());
  // If a folder cannot be removed, its marker stays, so that the next process removes it.
  Status RemoveFolder(const std::string& folder) REQUIRES(RootsMutex());
  // Leaves the path to other processes.
  void Leave() REQUIRES(RootsMutex());
  // Otherwise forked children would hold the locks too, and beyond the death of this process if it
  // is killed.
  static void UnlockInChildren();

  static std::map<std::string, std::shared_ptr<Root>>& All() REQUIRES(RootsMutex()) {
    static auto* roots = new std::map<std::string, std::shared_ptr<Root>>();
    return *roots;
  }
};

namespace {

// Tables that live until the process ends are not always destroyed by it: their files must still be
// removed.
struct RemoveFoldersAtExit {
  ~RemoveFoldersAtExit() {
    BackgroundPool::StopAll();  // otherwise the pool would write files that are being removed
    StorageFolder::RemoveAll();
  }
};
const RemoveFoldersAtExit kRemoveFoldersAtExit;

}  // namespace

void StorageFolder::RemoveAll() {
  const MutexLock one_at_a_time(RootsMutex());
  for (const auto& [_, root] : Root::All()) {
    if (root->process != ::getpid()) continue;
    if (root->HoldLock().ok()) {
      for (const std::string& folder : root->folders) (void)root->RemoveFolder(folder);
    }
    root->is_gone = true;  // files there may now be another process's
    root->Leave();
  }
}

Status StorageFolder::Root::HoldLock() {
  if (lock == nullptr || !lock->IsInPlace()) {
    is_clear = false;
    lock.reset();
    KERAS_SPARSE_RETURN_IF_ERROR(file_system->LockFile(path + kLockName, &lock));
  }
  if (is_clear) return Status::Ok();
  std::vector<std::string> names;
  KERAS_SPARSE_RETURN_IF_ERROR(file_system->List(path, &names));
  for (const std::string& name : names) {
    if (!IsMarker(name)) continue;
    const std::string folder = path + "/" + kTablePrefix + name.substr(sizeof(kMarkerPrefix) - 1);
    if (folders.count(folder) > 0) continue;
    KERAS_SPARSE_RETURN_IF_ERROR(RemoveFolder(folder));
  }
  is_clear = true;
  return Status::Ok();
}

Status StorageFolder::Root::MakeFolder(std::string* folder) {
  KERAS_SPARSE_RETURN_IF_ERROR(HoldLock());
  std::string taken;
  do {
    std::array<char, 48> name;
    std::snprintf(name.data(), name.size(), "/%s%06lld", kTablePrefix,
                  static_cast<long long>(num_made++));
    *folder = path + name.data();
  } while (file_system->Resolve(*folder, &taken).ok());
  std::unique_ptr<File> marker;
  KERAS_SPARSE_RETURN_IF_ERROR(file_system->CreateFile(MarkerOf(*folder), &marker));
  const Status made = file_system->MakeFolder(*folder);
  if (!made.ok()) {
    (void)file_system->RemoveFile(MarkerOf(*folder));
    return made;
  }
  folders.insert(*folder);
  return Status::Ok();
}

Status StorageFolder::Root::RemoveFolder(const std::string& folder) {
  KERAS_SPARSE_RETURN_IF_ERROR(file_system->RemoveFolder(folder));
  return file_system->RemoveFile(MarkerOf(folder));
}

void StorageFolder::Root::Leave() {
  if (lock != nullptr) (void)file_system->RemoveFile(path + kLockName);
  lock.reset();
  if (is_made) (void)file_system->RemoveEmptyFolder(path);
}

void StorageFolder::Root::UnlockInChildren() {
  static const int kIsRegistered =
      ::pthread_atfork([]() ACQUIRE(RootsMutex()) { RootsMutex().lock(); },
                       []() RELEASE(RootsMutex()) { RootsMutex().unlock(); },
                       []() RELEASE(RootsMutex()) {
                         for (const auto& [_, root] : All()) root->lock.reset();
                         RootsMutex().unlock();
                       });
  (void)kIsRegistered;
}

Status StorageFolder::Make(FileSystem* file_system, const std::string& storage_path,
                           std::unique_ptr<StorageFolder>* folder) {
  Root::UnlockInChildren();
  const MutexLock one_at_a_time(RootsMutex());
  std::string resolved;
  const bool is_there = file_system->Resolve(storage_path, &resolved).ok();
  Status status = file_system->MakeFolder(storage_path);
  if (status.ok()) status = file_system->Resolve(storage_path, &resolved);
  if (!status.ok()) return NoPlaceForFiles(status);
  const auto known = Root::All().find(resolved);
  std::shared_ptr<Root> root = known == Root::All().end() ? nullptr : known->second;
  if (root != nullptr && root->process != ::getpid()) {
    return FailedPrecondition(
        "`storage_path` must be another one than that of the process that "
        "this one was forked from. Received: '" +
        resolved + "'");
  }
  if (root == nullptr) root.reset(new Root{file_system, resolved, !is_there, ::getpid()});
  std::string path;
  const Status made = root->MakeFolder(&path);
  if (!made.ok()) {
    if (root->folders.empty()) root->Leave();
    return NoPlaceForFiles(made);
  }
  Root::All()[resolved] = root;
  folder->reset(new StorageFolder(std::move(root), path));
  return Status::Ok();
}

StorageFolder::~StorageFolder() {
  const MutexLock one_at_a_time(RootsMutex());
  if (root_->process != ::getpid() || root_->is_gone) return;
  // Files that cannot be removed now are removed by the next process that locks the path.
  if (root_->HoldLock().ok()) (void)root_->RemoveFolder(path_);
  root_->folders.erase(path_);
  if (!root_->folders.empty()) return;
  Root::All().erase(root_->path);
  root_->Leave();
}

}  // namespace keras_sparse
