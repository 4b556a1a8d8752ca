// A folder that ends with the test.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_TEMP_FOLDER_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_TEMP_FOLDER_H_

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "tests/ops/core/support/testing.h"

namespace keras_sparse {

class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "keras_sparse_XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = std::filesystem::canonical(name).string();
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  // The files and folders in it, however deep, by their relative path. Files may go meanwhile.
  std::set<std::string> Contents() const {
    std::set<std::string> contents;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path_)) {
      contents.insert(entry.path().lexically_relative(path_).string());
    }
    return contents;
  }

 private:
  std::string path_;
};

// Changes one byte of a file.
inline void FlipByte(const std::string& path, int64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(offset);
  const auto byte = static_cast<char>(file.get() ^ 1);
  file.seekp(offset);
  file.put(byte);
  ASSERT_TRUE(file.good());
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_TEMP_FOLDER_H_
