// Files of records by key: a header, then entries of a key and its record, with
// checksums.
#ifndef KERAS_SPARSE_OPS_CORE_FILES_ENTRY_FILE_H_
#define KERAS_SPARSE_OPS_CORE_FILES_ENTRY_FILE_H_

#include <array>
#include <cstdint>
#include <set>
#include <string>

#include "ops/core/base/status.h"
#include "ops/core/files/file_system.h"

namespace keras_sparse {

// docs/formats/ssdhash.md and pmem.md describe the bytes.
struct EntryLayout {
  static constexpr int64_t kHeaderBytes = 64;
  static constexpr int64_t kNumberOffset = 16;      // of the file's number in its header
  static constexpr int64_t kEntryHeaderBytes = 12;  // key, checksum

  int64_t record_bytes;

  int64_t stride() const { return kEntryHeaderBytes + record_bytes; }
  int64_t offset(int64_t entry) const { return kHeaderBytes + entry * stride(); }
};

// Returns the header of a file.
//   magic  8 characters
std::array<char, EntryLayout::kHeaderBytes> MakeFileHeader(const char* magic, uint32_t version,
                                                           uint64_t number,
                                                           const EntryLayout& layout);

// Writes an entry of stride() bytes to `to`.
void MakeEntry(int64_t key, const char* record, const EntryLayout& layout, char* to);

int64_t KeyOfEntry(const char* bytes);

// Returns DataLoss, with path and offset, unless these bytes are an intact entry and its key is
// `key`. Any key matches if `key` is null.
//   entry  its number in the file
Status CheckEntry(const char* bytes, const int64_t* key, const EntryLayout& layout, int64_t entry,
                  const std::string& path);

// Removes all files of a folder except `kept`, such as unused files that could not be removed
// earlier. Returns the first error.
//   kept  paths
Status RemoveFilesBut(FileSystem* file_system, const std::string& folder,
                      const std::set<std::string>& kept);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_FILES_ENTRY_FILE_H_
