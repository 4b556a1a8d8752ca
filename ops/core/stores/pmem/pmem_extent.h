// PmemExtent: one memory-mapped file of a PmemStore, with room for a fixed number of entries.
#ifndef KERAS_SPARSE_OPS_CORE_STORES_PMEM_PMEM_EXTENT_H_
#define KERAS_SPARSE_OPS_CORE_STORES_PMEM_PMEM_EXTENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "ops/core/base/status.h"
#include "ops/core/files/entry_file.h"
#include "ops/core/files/file_system.h"

namespace keras_sparse {

// Thread safety: const methods may overlap, also with writes to entries that they do not read;
// other calls need exclusive access. PmemStore's locks ensure this.
class PmemExtent {
 public:
  // Creates the file and maps it. Allocates its blocks on the disk here, because a write to a
  // mapping on a full disk would end the process. Returns ResourceExhausted if there is no room; no
  // file is left then.
  static Status Create(FileSystem* file_system, const std::string& path, uint64_t number,
                       const EntryLayout& layout, int64_t num_entries,
                       std::unique_ptr<PmemExtent>* extent);
  // Removes the file.
  ~PmemExtent();
  PmemExtent(const PmemExtent&) = delete;
  PmemExtent& operator=(const PmemExtent&) = delete;

  const std::string& path() const { return path_; }
  int64_t bytes() const { return static_cast<int64_t>(mapped_bytes_); }

  const char* Entry(int64_t entry) const { return data_ + layout_.offset(entry); }
  // Returns DataLoss, with path and offset, unless the entry is what was written and its key is
  // `key`. Any key matches if `key` is null.
  Status Check(int64_t entry, const int64_t* key) const {
    return CheckEntry(Entry(entry), key, layout_, entry, path_);
  }

  // Writes an entry of stride() bytes. It can be read immediately, and is in the file once Sync has
  // returned OK.
  void Write(int64_t entry, const char* bytes) { Copy(layout_.offset(entry), bytes, stride_); }
  Status Sync();

 private:
  PmemExtent(FileSystem* file_system, std::string path, const EntryLayout& layout)
      : file_system_(file_system),
        path_(std::move(path)),
        layout_(layout),
        stride_(static_cast<size_t>(layout.stride())) {}

  Status Map(int64_t bytes);
  void Copy(int64_t offset, const char* bytes, size_t num_bytes);

  FileSystem* file_system_;
  std::string path_;
  EntryLayout layout_;
  size_t stride_;
  bool has_file_ = false;
  char* data_ = nullptr;
  size_t mapped_bytes_ = 0;
  bool is_pmem_ = false;  // bytes flushed from the caches are in the file
  // The range of bytes written since Sync.
  int64_t changed_begin_ = INT64_MAX;
  int64_t changed_end_ = 0;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_PMEM_PMEM_EXTENT_H_
