#include "ops/core/ssd_segment.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "ops/core/crc32c.h"

namespace keras_sparse {
namespace {

constexpr char kMagic[] = "KSSEGMNT";
constexpr uint32_t kVersion = 1;
// What is written at once.
constexpr int64_t kBufferBytes = int64_t{1} << 20;

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
  return Crc32c(entry + SegmentLayout::kEntryHeaderBytes, static_cast<size_t>(record_bytes),
                of_key);
}

}  // namespace

Status SsdSegment::Create(Env* env, const std::string& path, uint64_t number,
                          const SegmentLayout& layout, std::shared_ptr<SsdSegment>* segment) {
  std::array<char, SegmentLayout::kHeaderBytes> header = {};
  std::memcpy(header.data(), kMagic, 8);
  Store(kVersion, header.data() + 8);
  Store(static_cast<uint32_t>(layout.record_bytes), header.data() + 12);
  Store(number, header.data() + 16);
  Store(Crc32c(header.data(), header.size() - 4), header.data() + header.size() - 4);
  std::shared_ptr<SsdSegment> made(new SsdSegment(env, path, layout));
  KERAS_SPARSE_RETURN_IF_ERROR(env->CreateFile(path, &made->file_));
  KERAS_SPARSE_RETURN_IF_ERROR(made->file_->Write(0, header.data(), header.size()));
  *segment = std::move(made);
  return Status::Ok();
}

SsdSegment::~SsdSegment() {
  if (file_ == nullptr) return;
  file_.reset();
  // It can be no more than a file too many, which the next process clears away.
  (void)env_->RemoveFile(path_);
}

Status SsdSegment::Append(int64_t key, const char* record) {
  const auto stride = static_cast<size_t>(layout_.stride());
  if (!buffer_.empty() && buffer_.size() + stride > static_cast<size_t>(kBufferBytes)) {
    KERAS_SPARSE_RETURN_IF_ERROR(Flush());
  }
  if (buffer_.capacity() == 0) buffer_.reserve(std::max<size_t>(stride, kBufferBytes));
  const size_t begin = buffer_.size();
  buffer_.resize(begin + stride);
  char* entry = buffer_.data() + begin;
  Store(key, entry);
  std::memcpy(entry + SegmentLayout::kEntryHeaderBytes, record,
              static_cast<size_t>(layout_.record_bytes));
  Store(EntryChecksum(entry, layout_.record_bytes), entry + sizeof(int64_t));
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

Status SsdSegment::Seal() {
  KERAS_SPARSE_RETURN_IF_ERROR(Flush());
  buffer_ = std::vector<char>();
  return Status::Ok();
}

Status SsdSegment::Check(int64_t entry, const char* bytes, const int64_t* key) const {
  const bool is_whole =
      Load<uint32_t>(bytes + sizeof(int64_t)) == EntryChecksum(bytes, layout_.record_bytes);
  if (is_whole && (key == nullptr || Load<int64_t>(bytes) == *key)) return Status::Ok();
  return Status(
      StatusCode::kDataLoss,
      "the entry at byte " + std::to_string(layout_.offset(entry)) + " of '" + path_ +
          "' must be what was written there; the disk has changed or lost it. Received: " +
          (is_whole ? "the entry of another key" : "a wrong checksum"));
}

}  // namespace keras_sparse
