#include "ops/core/files/entry_file.h"

#include <cstring>
#include <vector>

#include "ops/core/base/crc32c.h"

namespace keras_sparse {
namespace {

template <typename Number>
void Store(Number number, char* to) {
  std::memcpy(to, &number, sizeof(number));
}

template <typename Number>
Number Load(const char* from) {
  Number number;
  std::memcpy(&number, from, sizeof(number));
  return number;
}

uint32_t EntryChecksum(const char* entry, int64_t record_bytes) {
  const uint32_t of_key = Crc32c(entry, sizeof(int64_t));
  return Crc32c(entry + EntryLayout::kEntryHeaderBytes, static_cast<size_t>(record_bytes), of_key);
}

}  // namespace

std::array<char, EntryLayout::kHeaderBytes> MakeFileHeader(const char* magic, uint32_t version,
                                                           uint64_t number,
                                                           const EntryLayout& layout) {
  std::array<char, EntryLayout::kHeaderBytes> header = {};
  std::memcpy(header.data(), magic, 8);
  Store(version, header.data() + 8);
  Store(static_cast<uint32_t>(layout.record_bytes), header.data() + 12);
  Store(number, header.data() + EntryLayout::kNumberOffset);
  Store(Crc32c(header.data(), header.size() - 4), header.data() + header.size() - 4);
  return header;
}

void MakeEntry(int64_t key, const char* record, const EntryLayout& layout, char* to) {
  Store(key, to);
  std::memcpy(to + EntryLayout::kEntryHeaderBytes, record,
              static_cast<size_t>(layout.record_bytes));
  Store(EntryChecksum(to, layout.record_bytes), to + sizeof(int64_t));
}

int64_t KeyOfEntry(const char* bytes) { return Load<int64_t>(bytes); }

Status CheckEntry(const char* bytes, const int64_t* key, const EntryLayout& layout, int64_t entry,
                  const std::string& path) {
  const bool is_whole =
      Load<uint32_t>(bytes + sizeof(int64_t)) == EntryChecksum(bytes, layout.record_bytes);
  if (is_whole && (key == nullptr || KeyOfEntry(bytes) == *key)) return Status::Ok();
  return Status(
      StatusCode::kDataLoss,
      "the entry at byte " + std::to_string(layout.offset(entry)) + " of '" + path +
          "' must be what was written there; the disk has changed or lost it. Received: " +
          (is_whole ? "the entry of another key" : "a wrong checksum"));
}

Status RemoveFilesBut(FileSystem* file_system, const std::string& folder,
                      const std::set<std::string>& kept) {
  std::vector<std::string> names;
  Status status = file_system->List(folder, &names);
  for (const std::string& name : names) {
    std::string path = folder;
    path.append("/").append(name);
    const Status removed = kept.count(path) > 0 ? Status::Ok() : file_system->RemoveFile(path);
    if (status.ok()) status = removed;
  }
  return status;
}

}  // namespace keras_sparse
