#include "ops/core/stores/ssd/ssd_hash_store.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <utility>

#include "ops/core/base/environment_variable.h"
#include "ops/core/base/hash.h"

namespace keras_sparse {
namespace {

constexpr int64_t kGreatestSegmentBytes = int64_t{1} << 30;
constexpr int64_t kLeastSegmentBytes = int64_t{64} << 10;
// Room is made in steps of a segment, and each is an open file.
constexpr int64_t kSegmentsOfATier = 64;
// Records put per lock, so that a lookup does not wait for a whole change.
constexpr int64_t kRecordsPerLock = 256;

Status OpenSsdHash(const StoreOptions& options, std::unique_ptr<RowStore>* store) {
  SsdHashOptions ssd;
  ssd.file_system = FileSystem::Posix();
  ssd.folder = options.folder;
  ssd.record_bytes = options.record_bytes;
  ssd.capacity = options.capacity;
  ssd.segment_bytes =
      std::clamp(options.capacity / kSegmentsOfATier, kLeastSegmentBytes, kGreatestSegmentBytes);
  KERAS_SPARSE_RETURN_IF_ERROR(BackgroundPool::ForCompaction(&ssd.compaction_pool));
  int direct_io = 0;
  KERAS_SPARSE_RETURN_IF_ERROR(ReadEnvironment("KERAS_SPARSE_SSDHASH_DIRECT_IO", 1, 0, &direct_io));
  ssd.direct_io = direct_io == 1;
  return SsdHashStore::Open(ssd, store);
}

// Some file systems reject direct I/O when a file is created, others when it is written.
Status TryDirectIo(FileSystem* file_system, const std::string& folder) {
  const std::string path = folder + "/direct";
  std::unique_ptr<File> file;
  Status status = file_system->CreateDirectFile(path, &file);
  if (status.ok()) status = file->Write(0, "tried", 5);
  if (status.ok()) return file_system->RemoveFile(path);
  return Status(status.code(),
                "`storage_path` must be on a file system with direct I/O; take another one, or "
                "unset KERAS_SPARSE_SSDHASH_DIRECT_IO. Received: " +
                    status.message());
}

const bool kRegistered = RowStore::Register("ssdhash", OpenSsdHash);

}  // namespace

Status SsdHashStore::Open(const SsdHashOptions& options, std::unique_ptr<RowStore>* store) {
  KERAS_SPARSE_RETURN_IF_ERROR(options.file_system->MakeFolder(options.folder));
  if (options.direct_io) {
    const Status tried = TryDirectIo(options.file_system, options.folder);
    if (!tried.ok()) {
      (void)options.file_system->RemoveFolder(options.folder);
      return tried;
    }
  }
  store->reset(new SsdHashStore(options, EntryLayout{options.record_bytes}));
  return Status::Ok();
}

SsdHashStore::SsdHashStore(const SsdHashOptions& options, const EntryLayout& layout)
    : options_(options),
      layout_(layout),
      entries_(static_cast<uint32_t>(std::max<int64_t>(
          1, (options.segment_bytes - EntryLayout::kHeaderBytes) / layout.stride()))) {
  if (options.compaction_pool == nullptr) return;
  compaction_ = std::make_unique<BackgroundTask>(options.compaction_pool, [this] {
    (void)CompactDead();
    return false;
  });
}

SsdHashStore::~SsdHashStore() {
  compaction_ = nullptr;
  segments_.clear();
  (void)options_.file_system->RemoveFolder(options_.folder);
}

int64_t SsdHashStore::num_rows() const {
  const SharedLock lock(mutex_);
  return index_.size();
}

int64_t SsdHashStore::bytes() const {
  const SharedLock lock(mutex_);
  int64_t bytes = 0;
  for (const auto& segment : segments_) bytes += segment == nullptr ? 0 : segment->bytes();
  return bytes;
}

int64_t SsdHashStore::memory_bytes() const {
  const SharedLock lock(mutex_);
  int64_t bytes = index_.bytes();
  for (const auto& segment : segments_) bytes += segment == nullptr ? 0 : segment->memory_bytes();
  return bytes;
}

int64_t SsdHashStore::compacted_bytes() const {
  const SharedLock lock(mutex_);
  return num_compacted_ * layout_.stride();
}

void SsdHashStore::Contains(const int64_t* keys, int64_t n, bool* found) const {
  const SharedLock lock(mutex_);
  index_.Contains(keys, n, found);
}

Status SsdHashStore::GetTo(const int64_t* keys, int64_t n, char* const* to, bool* found) const {
  struct Located {
    Position position;
    int64_t place;  // position in the caller's arrays
  };
  std::vector<Located> located;
  Segments segments;  // shared, so that they stay while they are read
  {
    const SharedLock lock(mutex_);
    for (int64_t i = 0; i < n; ++i) {
      index_.PrefetchAhead(keys, n, i);
      const Position position = index_.Find(HashKey(keys[i]), keys[i]);
      found[i] = position != HashIndex::kNoRow;
      if (!found[i]) continue;
      const SsdSegment& segment = *segments_[SegmentOf(position)];
      const int64_t entry = EntryOf(position);
      if (segment.IsBuffered(entry)) {
        std::memcpy(to[i], segment.BufferedRecord(entry),
                    static_cast<size_t>(layout_.record_bytes));
      } else {
        located.push_back({position, i});
      }
    }
    if (!located.empty()) segments = segments_;
  }
  // By position, so that the disk is read in the order of its files.
  std::sort(located.begin(), located.end(),
            [](const Located& a, const Located& b) { return a.position < b.position; });
  return options_.file_system->ReadMany(located.size(), [&](size_t i) {
    const auto [position, place] = located[i];
    return segments[SegmentOf(position)]->ReadRecord(EntryOf(position), keys[place], to[place]);
  });
}

Status SsdHashStore::Put(const int64_t* keys, int64_t n, const char* records) {
  if (n == 0) return Status::Ok();
  KERAS_SPARSE_RETURN_IF_ERROR(MakeRoom(n));
  for (int64_t begin = 0; begin < n; begin += kRecordsPerLock) {
    const MutexLock lock(mutex_);
    for (int64_t i = begin; i < std::min(n, begin + kRecordsPerLock); ++i) {
      index_.PrefetchAhead(keys, n, i);
      Position position = 0;
      KERAS_SPARSE_RETURN_IF_ERROR(Append(keys[i], records + i * layout_.record_bytes, &position));
      const Position old = index_.Exchange(HashKey(keys[i]), keys[i], position);
      if (old != HashIndex::kNoRow) Release(old);
    }
  }
  if (compaction_ != nullptr) {
    compaction_->Schedule();
  } else {
    // The records are stored: if compaction fails, the next call retries.
    (void)CompactDead();
  }
  return Status::Ok();
}

Status SsdHashStore::Append(int64_t key, const char* record, Position* position) {
  if (segments_.empty() || segments_[newest_]->num_entries() == entries_ ||
      segments_[newest_]->is_sealed()) {
    KERAS_SPARSE_RETURN_IF_ERROR(BeginSegment());
  }
  SsdSegment& segment = *segments_[newest_];
  KERAS_SPARSE_RETURN_IF_ERROR(segment.Append(key, record));
  ++segment.num_alive;
  *position =
      static_cast<Position>(newest_ * entries_ + static_cast<size_t>(segment.num_entries() - 1));
  return Status::Ok();
}

Status SsdHashStore::BeginSegment() {
  if (!segments_.empty()) KERAS_SPARSE_RETURN_IF_ERROR(segments_[newest_]->Seal());
  auto number = static_cast<size_t>(std::find(segments_.begin(), segments_.end(), nullptr) -
                                    segments_.begin());
  if ((number + 1) * entries_ > HashIndex::kNoRow) {
    return ResourceExhausted("'" + options_.folder + "' holds at most 4294967295 records");
  }
  std::array<char, 32> name;
  std::snprintf(name.data(), name.size(), "/%06llu.seg",
                static_cast<unsigned long long>(num_begun_));
  std::shared_ptr<SsdSegment> segment;
  KERAS_SPARSE_RETURN_IF_ERROR(SsdSegment::Create(options_.file_system,
                                                  options_.folder + name.data(), num_begun_,
                                                  layout_, options_.direct_io, &segment));
  ++num_begun_;
  if (number == segments_.size()) segments_.emplace_back();
  segments_[number] = std::move(segment);
  const size_t sealed = newest_;
  newest_ = number;
  if (sealed != number && segments_[sealed] != nullptr && segments_[sealed]->num_alive == 0) {
    segments_[sealed] = nullptr;
  }
  return Status::Ok();
}

void SsdHashStore::Release(Position position) {
  const size_t number = SegmentOf(position);
  // The newest segment is still being written.
  if (--segments_[number]->num_alive == 0 && number != newest_) segments_[number] = nullptr;
}

Status SsdHashStore::Erase(const int64_t* keys, int64_t n) {
  const MutexLock lock(mutex_);
  for (int64_t i = 0; i < n; ++i) {
    index_.PrefetchAhead(keys, n, i);
    const Position position = index_.Erase(HashKey(keys[i]), keys[i]);
    if (position != HashIndex::kNoRow) Release(position);
  }
  return Status::Ok();
}

Status SsdHashStore::Clear() {
  const MutexLock lock(mutex_);
  index_ = HashIndex(0);
  segments_.clear();
  newest_ = 0;
  return Status::Ok();
}

Status SsdHashStore::Walk(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
                          std::vector<char>* records, int64_t* next) const {
  std::vector<int64_t> walked;
  {
    const SharedLock lock(mutex_);
    std::vector<uint32_t> positions;
    *next = index_.AppendSegments(cursor, max_rows, &walked, &positions);
  }
  return AppendRecords(walked, keys, records);
}

}  // namespace keras_sparse
