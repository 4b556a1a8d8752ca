#include "ops/core/stores/ssd/ssd_segment.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace keras_sparse {
namespace {

constexpr char kSegmentMagic[] = "KSSEGMNT";
constexpr uint32_t kSegmentVersion = 1;
// Bytes written at once.
constexpr int64_t kBufferBytes = int64_t{1} << 20;

}  // namespace

Status SsdSegment::Create(FileSystem* file_system, const std::string& path, uint64_t number,
                          const EntryLayout& layout, bool direct_io,
                          std::shared_ptr<SsdSegment>* segment) {
  const auto header = MakeFileHeader(kSegmentMagic, kSegmentVersion, number, layout);
  std::shared_ptr<SsdSegment> made(new SsdSegment(file_system, path, layout));
  KERAS_SPARSE_RETURN_IF_ERROR(direct_io ? file_system->CreateDirectFile(path, &made->file_)
                                         : file_system->CreateFile(path, &made->file_));
  KERAS_SPARSE_RETURN_IF_ERROR(made->file_->Write(0, header.data(), header.size()));
  *segment = std::move(made);
  return Status::Ok();
}

SsdSegment::~SsdSegment() {
  if (file_ == nullptr) return;
  file_.reset();
  // A failure leaves one file too many, which the next process removes.
  (void)file_system_->RemoveFile(path_);
}

Status SsdSegment::Append(int64_t key, const char* record) {
  const auto stride = static_cast<size_t>(layout_.stride());
  if (!buffer_.empty() && buffer_.size() + stride > static_cast<size_t>(kBufferBytes)) {
    KERAS_SPARSE_RETURN_IF_ERROR(Flush());
  }
  if (buffer_.capacity() == 0) buffer_.reserve(std::max<size_t>(stride, kBufferBytes));
  const size_t begin = buffer_.size();
  buffer_.resize(begin + stride);
  MakeEntry(key, record, layout_, buffer_.data() + begin);
  ++num_entries_;
  return Status::Ok();
}

Status SsdSegment::Flush() {
  KERAS_SPARSE_RETURN_IF_ERROR(file_->Write(layout_.offset(num_written_), buffer_.data(),
                                            static_cast<int64_t>(buffer_.size())));
  num_written_ = num_entries_;
  buffer_.clear();
  return Status::Ok();
}

Status SsdSegment::ReadRecord(int64_t entry, int64_t key, char* record) const {
  // Checked and copied while it is in the cache of the core that has read it.
  static thread_local std::vector<char> bytes;
  bytes.resize(std::max(bytes.size(), static_cast<size_t>(layout_.stride())));
  Status status = Read(entry, 1, bytes.data());
  if (status.ok()) status = Check(entry, bytes.data(), &key);
  if (!status.ok()) {
    const MutexLock lock(suspects_mutex_);
    suspects_.insert(entry);
    return status;
  }
  std::memcpy(record, bytes.data() + EntryLayout::kEntryHeaderBytes,
              static_cast<size_t>(layout_.record_bytes));
  return Status::Ok();
}

Status SsdSegment::CheckSuspects(const std::vector<uint8_t>& alive) const {
  std::set<int64_t> suspects;
  {
    const MutexLock lock(suspects_mutex_);
    suspects = suspects_;
  }
  std::vector<char> bytes(static_cast<size_t>(layout_.stride()));
  for (const int64_t entry : suspects) {
    const auto byte = static_cast<size_t>(entry / 8);
    if (byte >= alive.size() || (alive[byte] >> (entry % 8) & 1) == 0) continue;
    KERAS_SPARSE_RETURN_IF_ERROR(Read(entry, 1, bytes.data()));
    KERAS_SPARSE_RETURN_IF_ERROR(Check(entry, bytes.data(), nullptr));
  }
  return Status::Ok();
}

Status SsdSegment::Seal() {
  if (is_sealed_) return Status::Ok();
  KERAS_SPARSE_RETURN_IF_ERROR(Flush());
  buffer_ = std::vector<char>();
  is_sealed_ = true;
  return Status::Ok();
}

Status ReadSegment(FileSystem* file_system, const std::string& path, int64_t record_bytes,
                   int64_t first, const bool* is_alive, int64_t n, std::vector<int64_t>* keys,
                   std::vector<char>* records) {
  const EntryLayout layout{record_bytes};
  std::unique_ptr<File> file;
  KERAS_SPARSE_RETURN_IF_ERROR(file_system->OpenFile(path, &file));
  std::array<char, EntryLayout::kHeaderBytes> header;
  KERAS_SPARSE_RETURN_IF_ERROR(file->Read(0, EntryLayout::kHeaderBytes, header.data()));
  uint64_t number;
  std::memcpy(&number, header.data() + EntryLayout::kNumberOffset, sizeof(number));
  if (header != MakeFileHeader(kSegmentMagic, kSegmentVersion, number, layout)) {
    return InvalidArgument("'" + path + "' must be a segment of version " +
                           std::to_string(kSegmentVersion) + " with records of " +
                           std::to_string(record_bytes) + " bytes. Received: another header");
  }
  std::vector<char> entries(static_cast<size_t>(n * layout.stride()));
  KERAS_SPARSE_RETURN_IF_ERROR(
      file->Read(layout.offset(first), static_cast<int64_t>(entries.size()), entries.data()));
  for (int64_t i = 0; i < n; ++i) {
    if (!is_alive[i]) continue;
    const char* entry = entries.data() + i * layout.stride();
    KERAS_SPARSE_RETURN_IF_ERROR(CheckEntry(entry, nullptr, layout, first + i, path));
    keys->push_back(KeyOfEntry(entry));
    records->insert(records->end(), entry + EntryLayout::kEntryHeaderBytes,
                    entry + layout.stride());
  }
  return Status::Ok();
}

}  // namespace keras_sparse
