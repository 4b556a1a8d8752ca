// SsdHashStore: compaction, which makes room for new entries by removing dead ones.
#include <algorithm>
#include <set>
#include <utility>

#include "ops/core/base/hash.h"
#include "ops/core/files/entry_file.h"
#include "ops/core/stores/ssd/ssd_hash_store.h"

namespace keras_sparse {
namespace {

constexpr int64_t kDeadPercent = 50;
// Bytes of entries that compaction reads, then moves, at once.
constexpr int64_t kCompactionBytes = int64_t{1} << 20;

}  // namespace

Status SsdHashStore::CompactDead() {
  const MutexLock one_at_a_time(compaction_mutex_);
  return CompactUntil(kDeadPercent, 0);
}

Status SsdHashStore::Compact() {
  const MutexLock one_at_a_time(compaction_mutex_);
  std::vector<std::pair<size_t, std::shared_ptr<SsdSegment>>> with_dead;
  {
    const MutexLock lock(mutex_);
    const auto has_dead = [](const SsdSegment& segment) {
      return segment.num_alive < segment.num_entries();
    };
    if (!segments_.empty() && has_dead(*segments_[newest_])) {
      KERAS_SPARSE_RETURN_IF_ERROR(BeginSegment());
    }
    for (size_t s = 0; s < segments_.size(); ++s) {
      if (segments_[s] != nullptr && has_dead(*segments_[s]))
        with_dead.emplace_back(s, segments_[s]);
    }
  }
  Status status;
  for (auto& [number, listed] : with_dead) {
    const std::shared_ptr<SsdSegment> segment =
        std::move(listed);  // the file is removed with it, at once
    Status compacted = CompactSegment(number, segment);
    if (compacted.ok()) {
      const SharedLock lock(mutex_);
      if (number < segments_.size() && segments_[number] == segment) {
        compacted = Status(StatusCode::kDataLoss,
                           "rows must be read to be moved away from what is dead beside them. "
                           "Received: some rows of '" +
                               segment->path() + "' cannot");
      }
    }
    if (status.ok()) status = compacted;
  }
  const Status removed = RemoveLeftFiles();
  return status.ok() ? removed : status;
}

Status SsdHashStore::RemoveLeftFiles() const {
  const MutexLock links_lock(links_mutex_);
  const SharedLock lock(mutex_);
  std::set<std::string> kept;
  for (const auto& segment : segments_) {
    if (segment != nullptr) kept.insert(segment->path());
  }
  return RemoveFilesBut(options_.file_system, options_.folder, kept);
}

Status SsdHashStore::MakeRoom(int64_t num_records) {
  const int64_t added = num_records * layout_.stride();
  if (bytes() + added <= options_.capacity) return Status::Ok();
  // No other compaction then has a half-copied segment, which would count twice.
  const MutexLock one_at_a_time(compaction_mutex_);
  KERAS_SPARSE_RETURN_IF_ERROR(CompactUntil(0, options_.capacity - added));
  const int64_t needed = bytes() + added;
  if (needed <= options_.capacity) return Status::Ok();
  return TierIsFull(options_.folder, options_.capacity, needed);
}

Status SsdHashStore::CompactUntil(int64_t least_dead_percent, int64_t enough_bytes) {
  while (bytes() > enough_bytes) {
    size_t number = 0;
    std::shared_ptr<SsdSegment> segment;
    {
      const SharedLock lock(mutex_);
      int64_t most_dead = 0;
      for (size_t s = 0; s < segments_.size(); ++s) {
        if (segments_[s] == nullptr || s == newest_ || segments_[s]->is_damaged) continue;
        // Entries that a segment sealed early lacks count as dead, so that such segments do not
        // pile up. They do not count if bytes are needed, because they use none.
        const int64_t num_entries = least_dead_percent > 0 ? entries_ : segments_[s]->num_entries();
        const int64_t dead = num_entries - segments_[s]->num_alive;
        if (dead <= most_dead || dead * 100 < num_entries * least_dead_percent) continue;
        most_dead = dead;
        number = s;
      }
      if (most_dead == 0) return Status::Ok();
      segment = segments_[number];
    }
    KERAS_SPARSE_RETURN_IF_ERROR(CompactSegment(number, segment));
  }
  return Status::Ok();
}

Status SsdHashStore::CompactSegment(size_t number, const std::shared_ptr<SsdSegment>& segment) {
  const int64_t stride = layout_.stride();
  const int64_t chunk = std::max<int64_t>(1, kCompactionBytes / stride);
  std::vector<char> entries;
  std::vector<bool> is_read;
  std::vector<int64_t> keys;
  for (int64_t first = 0; first < segment->num_entries(); first += chunk) {
    const int64_t n = std::min(chunk, segment->num_entries() - first);
    entries.resize(static_cast<size_t>(n * stride));
    is_read.assign(static_cast<size_t>(n), true);
    if (!segment->Read(first, n, entries.data()).ok()) {
      for (int64_t i = 0; i < n; ++i) {
        is_read[static_cast<size_t>(i)] =
            segment->Read(first + i, 1, entries.data() + i * stride).ok();
      }
    }
    keys.clear();
    for (int64_t i = 0; i < n; ++i) keys.push_back(KeyOfEntry(entries.data() + i * stride));
    const MutexLock lock(mutex_);
    for (int64_t i = 0; i < n; ++i) {
      index_.PrefetchAhead(keys.data(), n, i);
      if (!is_read[static_cast<size_t>(i)]) continue;
      const char* entry = entries.data() + i * stride;
      const int64_t key = keys[static_cast<size_t>(i)];
      if (number >= segments_.size() || segments_[number] != segment) return Status::Ok();
      const auto position =
          static_cast<Position>(static_cast<int64_t>(number) * entries_ + first + i);
      if (index_.Find(HashKey(key), key) != position) continue;  // dead, or damaged
      if (!segment->Check(first + i, entry, nullptr).ok()) continue;
      Position moved = 0;
      KERAS_SPARSE_RETURN_IF_ERROR(Append(key, entry + EntryLayout::kEntryHeaderBytes, &moved));
      (void)index_.Exchange(HashKey(key), key, moved);
      ++num_compacted_;
      Release(position);
    }
  }
  // The remaining entries cannot be read: they stay, and readers get the error.
  const MutexLock lock(mutex_);
  segment->is_damaged = true;
  return Status::Ok();
}

}  // namespace keras_sparse
