#include "ops/core/ssd_segment.h"

#include <algorithm>
#include <utility>

namespace keras_sparse {
namespace {

constexpr char kMagic[] = "KSSEGMNT";
constexpr uint32_t kVersion = 1;
// What is written at once.
constexpr int64_t kBufferBytes = int64_t{1} << 20;

}  // namespace

Status SsdSegment::Create(Env* env, const std::string& path, uint64_t number,
                          const EntryLayout& layout, std::shared_ptr<SsdSegment>* segment) {
  const auto header = MakeFileHeader(kMagic, kVersion, number, layout);
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

Status SsdSegment::Seal() {
  KERAS_SPARSE_RETURN_IF_ERROR(Flush());
  buffer_ = std::vector<char>();
  return Status::Ok();
}

}  // namespace keras_sparse
