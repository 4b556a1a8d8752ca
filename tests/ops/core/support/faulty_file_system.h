// A FileSystem whose calls fail when the test says so; what does not fail is done by the real one.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_FAULTY_FILE_SYSTEM_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_FAULTY_FILE_SYSTEM_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/files/file_system.h"

namespace keras_sparse {

class FaultyFileSystem : public FileSystem {
 public:
  // Calls that still succeed before all later ones of the kind fail. A write that fails leaves half
  // of its bytes, as a full disk does.
  std::atomic<int64_t> writes_left{INT64_MAX};
  std::atomic<int64_t> reads_left{INT64_MAX};
  std::atomic<int64_t> creations_left{INT64_MAX};
  std::atomic<int64_t> links_left{INT64_MAX};
  std::atomic<int64_t> opens_left{INT64_MAX};
  std::atomic<int64_t> removals_left{INT64_MAX};  // of files
  std::atomic<int64_t> folders_left{INT64_MAX};   // to be made
  std::atomic<int64_t> lists_left{INT64_MAX};
  std::atomic<int64_t> locks_left{INT64_MAX};
  // Called before each read, so that a test can hold one up.
  std::function<void()> before_read = [] {};

  Status CreateFile(const std::string& path, std::unique_ptr<File>* file) override {
    return Create(&FileSystem::CreateFile, path, file);
  }
  Status CreateDirectFile(const std::string& path, std::unique_ptr<File>* file) override {
    return Create(&FileSystem::CreateDirectFile, path, file);
  }
  Status OpenFile(const std::string& path, std::unique_ptr<File>* file) override {
    if (opens_left-- <= 0) return FailedPrecondition("could not open '" + path + "'");
    return Wrap(&FileSystem::OpenFile, path, file);
  }
  Status RemoveFile(const std::string& path) override {
    if (removals_left-- <= 0) return FailedPrecondition("could not remove '" + path + "'");
    return file_system_->RemoveFile(path);
  }
  Status LinkFile(const std::string& path, const std::string& second) override {
    if (links_left-- <= 0) return FailedPrecondition("could not link to '" + second + "'");
    return file_system_->LinkFile(path, second);
  }
  Status MakeFolder(const std::string& path) override {
    if (folders_left-- <= 0) return ResourceExhausted("could not make folder '" + path + "'");
    return file_system_->MakeFolder(path);
  }
  Status RemoveFolder(const std::string& path) override { return file_system_->RemoveFolder(path); }
  Status RemoveEmptyFolder(const std::string& path) override {
    return file_system_->RemoveEmptyFolder(path);
  }
  Status Resolve(const std::string& path, std::string* resolved) override {
    return file_system_->Resolve(path, resolved);
  }
  Status List(const std::string& path, std::vector<std::string>* names) override {
    if (lists_left-- <= 0) return DataLoss("list", path);
    return file_system_->List(path, names);
  }
  Status LockFile(const std::string& path, std::unique_ptr<Lock>* lock) override {
    if (locks_left-- <= 0) return FailedPrecondition("could not lock '" + path + "'");
    return file_system_->LockFile(path, lock);
  }
  Status ReadMany(size_t n, const std::function<Status(size_t)>& read) override {
    return file_system_->ReadMany(n, read);
  }

 private:
  class FaultyFile : public File {
   public:
    FaultyFile(FaultyFileSystem* file_system, std::string path, std::unique_ptr<File> real)
        : file_system_(file_system), path_(std::move(path)), real_(std::move(real)) {}

    Status Write(int64_t offset, const char* data, int64_t bytes) override {
      if (file_system_->writes_left-- > 0) return real_->Write(offset, data, bytes);
      KERAS_SPARSE_RETURN_IF_ERROR(real_->Write(offset, data, bytes / 2));
      return ResourceExhausted("could not write at byte " + std::to_string(offset) + " of '" +
                               path_ + "'");
    }
    Status Read(int64_t offset, int64_t bytes, char* to) const override {
      file_system_->before_read();
      if (file_system_->reads_left-- > 0) return real_->Read(offset, bytes, to);
      return DataLoss("read at byte " + std::to_string(offset) + " of", path_);
    }

   private:
    FaultyFileSystem* file_system_;
    std::string path_;
    std::unique_ptr<File> real_;
  };

  static Status DataLoss(const std::string& what, const std::string& path) {
    return Status(StatusCode::kDataLoss, "could not " + what + " '" + path + "'");
  }

  using OpenMethod = Status (FileSystem::*)(const std::string& path, std::unique_ptr<File>* file);
  Status Create(OpenMethod create, const std::string& path, std::unique_ptr<File>* file) {
    if (creations_left-- <= 0) return ResourceExhausted("could not create '" + path + "'");
    return Wrap(create, path, file);
  }
  Status Wrap(OpenMethod open, const std::string& path, std::unique_ptr<File>* file) {
    std::unique_ptr<File> real;
    KERAS_SPARSE_RETURN_IF_ERROR((file_system_->*open)(path, &real));
    *file = std::make_unique<FaultyFile>(this, path, std::move(real));
    return Status::Ok();
  }

  FileSystem* file_system_ = FileSystem::Posix();
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_FAULTY_FILE_SYSTEM_H_
