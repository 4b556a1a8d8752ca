// SsdHashStore: links its segments as files of a checkpoint.
#include <utility>

#include "ops/core/stores/ssd/ssd_hash_store.h"

namespace keras_sparse {
namespace {

Status CannotBeSaved(const std::string& received) {
  return Status(
      StatusCode::kDataLoss,
      "rows must be read to be saved; go on from the last checkpoint. Received: " + received);
}

}  // namespace

Status SsdHashStore::LinkFiles(const std::string& path_prefix, std::vector<LinkedFile>* files) {
  const MutexLock links_lock(links_mutex_);
  Segments linked;
  {
    // An exclusive lock: a background compaction must not move a row between the two.
    const MutexLock lock(mutex_);
    for (const auto& segment : segments_) {
      if (segment == nullptr || !segment->is_damaged || segment->num_alive == 0) continue;
      return CannotBeSaved("some rows of '" + segment->path() + "' cannot");
    }
    if (!segments_.empty()) KERAS_SPARSE_RETURN_IF_ERROR(segments_[newest_]->Seal());
    std::vector<std::vector<uint8_t>> alive(segments_.size());
    for (size_t s = 0; s < segments_.size(); ++s) {
      if (segments_[s] == nullptr) continue;
      alive[s].resize(static_cast<size_t>(segments_[s]->num_entries() + 7) / 8);
    }
    std::vector<int64_t> keys;
    std::vector<uint32_t> positions;
    for (int64_t at = 0; at >= 0;) {
      keys.clear();
      positions.clear();
      at = index_.AppendSegment(at, &keys, &positions);
      for (const Position position : positions) {
        const auto entry = static_cast<size_t>(EntryOf(position));
        alive[SegmentOf(position)][entry / 8] |= static_cast<uint8_t>(1u << (entry % 8));
      }
    }
    for (size_t s = 0; s < segments_.size(); ++s) {
      if (segments_[s] == nullptr || segments_[s]->num_alive == 0) continue;
      const std::string& path = segments_[s]->path();
      files->push_back({path_prefix + path.substr(path.rfind('/') + 1), segments_[s]->num_entries(),
                        std::move(alive[s])});
      linked.push_back(segments_[s]);  // stays until it is linked, even if it is compacted
    }
  }
  const size_t first = files->size() - linked.size();
  for (size_t i = 0; i < linked.size(); ++i) {
    const LinkedFile& file = (*files)[first + i];
    const Status readable = linked[i]->CheckSuspects(file.alive);
    if (!readable.ok()) return CannotBeSaved(readable.message());
    KERAS_SPARSE_RETURN_IF_ERROR(linked[i]->Link(file.path));
  }
  return Status::Ok();
}

}  // namespace keras_sparse
