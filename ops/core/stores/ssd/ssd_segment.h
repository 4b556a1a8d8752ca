// SsdSegment: one append-only file of an SsdHashStore, whose entries are keys and records.
#ifndef KERAS_SPARSE_OPS_CORE_STORES_SSD_SSD_SEGMENT_H_
#define KERAS_SPARSE_OPS_CORE_STORES_SSD_SSD_SEGMENT_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/base/mutex.h"
#include "ops/core/base/status.h"
#include "ops/core/files/entry_file.h"
#include "ops/core/files/file_system.h"

namespace keras_sparse {

// Thread safety: const methods may overlap, also with Append to entries that they do not read; any
// other call needs exclusive access to the segment. SsdHashStore's lock ensures this.
class SsdSegment {
 public:
  // Creates the file with its header. With `direct_io`, reads and writes bypass the page cache.
  static Status Create(FileSystem* file_system, const std::string& path, uint64_t number,
                       const EntryLayout& layout, bool direct_io,
                       std::shared_ptr<SsdSegment>* segment);
  // Removes the file.
  ~SsdSegment();

  // Maintained by the store: the number of entries in its index, and whether some cannot be read.
  int64_t num_alive = 0;
  bool is_damaged = false;

  int64_t num_entries() const { return num_entries_; }
  int64_t bytes() const { return layout_.offset(num_entries_); }
  int64_t memory_bytes() const { return static_cast<int64_t>(buffer_.capacity()); }

  // Appends an entry, to a buffer first. After an error nothing is appended, and earlier entries
  // are not lost: they stay in the buffer.
  Status Append(int64_t key, const char* record);
  // Writes the buffer and frees its memory: nothing can be appended afterwards.
  Status Seal();
  bool is_sealed() const { return is_sealed_; }
  // Creates a second name for the file, which remains when this one is removed.
  // REQUIRES: is_sealed()
  Status Link(const std::string& path) const { return file_system_->LinkFile(path_, path); }
  const std::string& path() const { return path_; }

  // Whether an entry is still in the buffer, and its record there.
  bool IsBuffered(int64_t entry) const { return entry >= num_written_; }
  const char* BufferedRecord(int64_t entry) const {
    return buffer_.data() + (entry - num_written_) * layout_.stride() +
           EntryLayout::kEntryHeaderBytes;
  }

  // Reads `n` written entries as they are.
  //   to  (n, stride)
  Status Read(int64_t entry, int64_t n, char* to) const {
    return file_->Read(layout_.offset(entry), n * layout_.stride(), to);
  }
  // Reads the record of `key` from a written entry. Returns DataLoss as Check does; the entry is
  // then remembered as a suspect.
  Status ReadRecord(int64_t entry, int64_t key, char* record) const;
  // Returns the error of the first suspect among these entries that still cannot be read.
  //   alive  one bit per entry, lowest first: whether the entry is checked
  Status CheckSuspects(const std::vector<uint8_t>& alive) const;
  // Returns DataLoss, with path and offset, unless these bytes are the entry that was written and
  // its key is `key`. Any key matches if `key` is null.
  Status Check(int64_t entry, const char* bytes, const int64_t* key) const {
    return CheckEntry(bytes, key, layout_, entry, path_);
  }

 private:
  SsdSegment(FileSystem* file_system, std::string path, const EntryLayout& layout)
      : file_system_(file_system), path_(std::move(path)), layout_(layout) {}

  Status Flush();

  FileSystem* file_system_;
  std::string path_;
  EntryLayout layout_;
  std::unique_ptr<File> file_;
  int64_t num_entries_ = 0;
  int64_t num_written_ = 0;
  bool is_sealed_ = false;
  std::vector<char> buffer_;  // entries after the written ones
  mutable Mutex suspects_mutex_;
  mutable std::set<int64_t> suspects_
      GUARDED_BY(suspects_mutex_);  // entries that could not be read
};

// Reads entries of a linked segment.
//   is_alive       (n), whether each entry, starting with `first`, is wanted
//   keys, records  those of wanted entries are appended
// Returns InvalidArgument if the file is not a segment with such records, DataLoss if it is
// damaged.
Status ReadSegment(FileSystem* file_system, const std::string& path, int64_t record_bytes,
                   int64_t first, const bool* is_alive, int64_t n, std::vector<int64_t>* keys,
                   std::vector<char>* records);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_SSD_SSD_SEGMENT_H_
