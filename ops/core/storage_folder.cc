#include "ops/core/storage_folder.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "ops/core/background_pool.h"

namespace keras_sparse {
namespace {

constexpr char kLockName[] = "/keras_sparse.lock";
constexpr char kTablePrefix[] = "keras_sparse-table-";

// Exactly what is made here: a storage path may hold files of the user's.
bool IsTableFolder(const std::string& name) {
  const std::string prefix = kTablePrefix;
  return name.size() > prefix.size() && name.compare(0, prefix.size(), prefix) == 0 &&
         name.find_first_not_of("0123456789", prefix.size()) == std::string::npos;
}

// Of all paths in use, and of making and ending their roots.
std::mutex* Mutex() {
  static auto* mutex = new std::mutex();
  return mutex;
}

}  // namespace

// A storage path that this process has locked.
struct StorageFolder::Root {
  Env* env;
  int64_t process;  // a child that is forked from it must leave the files alone
  std::unique_ptr<Env::Lock> lock;
  bool is_made = false;  // and not a folder that was there
  bool is_gone = false;
  int64_t num_made = 0;
  std::set<std::string> folders;  // of the tables

  static std::map<std::string, std::shared_ptr<Root>>& All() {
    static auto* roots = new std::map<std::string, std::shared_ptr<Root>>();
    return *roots;
  }
};

namespace {

// Tables that live until the process ends are not always ended by it: their files must go all the
// same.
struct RemoveFoldersAtExit {
  ~RemoveFoldersAtExit() {
    BackgroundPool::StopAll();  // or it would write between what is being removed
    StorageFolder::RemoveAll();
  }
};
const RemoveFoldersAtExit kRemoveFoldersAtExit;

}  // namespace

void StorageFolder::RemoveAll() {
  std::lock_guard<std::mutex> one_at_a_time(*Mutex());
  for (const auto& [path, root] : Root::All()) {
    if (root->process != ::getpid()) continue;
    for (const std::string& folder : root->folders) (void)root->env->RemoveFolder(folder);
    root->is_gone = true;  // what stands there from now on may be another process's
    (void)root->env->RemoveFile(path + kLockName);
    if (root->is_made) (void)root->env->RemoveEmptyFolder(path);
  }
}

Status StorageFolder::Make(Env* env, const std::string& storage_path,
                           std::unique_ptr<StorageFolder>* folder) {
  std::lock_guard<std::mutex> one_at_a_time(*Mutex());
  std::string resolved;
  const bool is_there = env->Resolve(storage_path, &resolved).ok();
  KERAS_SPARSE_RETURN_IF_ERROR(env->MakeFolder(storage_path));
  KERAS_SPARSE_RETURN_IF_ERROR(env->Resolve(storage_path, &resolved));
  const auto known = Root::All().find(resolved);
  std::shared_ptr<Root> root = known == Root::All().end() ? nullptr : known->second;
  if (root != nullptr && root->process != ::getpid()) {
    return FailedPrecondition("'" + resolved +
                              "' is used by the process that this one was forked from; give this "
                              "one a folder of its own");
  }
  if (root == nullptr) {
    root = std::make_shared<Root>();
    root->is_made = !is_there;
    root->env = env;
    root->process = ::getpid();
    KERAS_SPARSE_RETURN_IF_ERROR(env->LockFile(resolved + kLockName, &root->lock));
    std::vector<std::string> names;
    KERAS_SPARSE_RETURN_IF_ERROR(env->List(resolved, &names));
    for (const std::string& name : names) {
      if (!IsTableFolder(name)) continue;
      KERAS_SPARSE_RETURN_IF_ERROR(env->RemoveFolder(resolved + "/" + name));
    }
  }
  std::array<char, 48> name;
  std::snprintf(name.data(), name.size(), "/%s%06lld", kTablePrefix,
                static_cast<long long>(root->num_made));
  const std::string path = resolved + name.data();
  KERAS_SPARSE_RETURN_IF_ERROR(env->MakeFolder(path));
  ++root->num_made;
  root->folders.insert(path);
  Root::All()[resolved] = root;
  folder->reset(new StorageFolder(env, std::move(root), path));
  return Status::Ok();
}

StorageFolder::~StorageFolder() {
  std::lock_guard<std::mutex> one_at_a_time(*Mutex());
  if (root_->process != ::getpid() || root_->is_gone) return;
  // What cannot be removed now is removed by the next process that locks the path.
  (void)env_->RemoveFolder(path_);
  root_->folders.erase(path_);
  if (!root_->folders.empty()) return;
  const std::string root_path = path_.substr(0, path_.rfind('/'));
  Root::All().erase(root_path);
  (void)env_->RemoveFile(root_path + kLockName);
  root_->lock.reset();
  if (root_->is_made) (void)env_->RemoveEmptyFolder(root_path);
}

}  // namespace keras_sparse
