#include "ops/core/stores/pmem/pmem_store.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <set>
#include <utility>

#include "ops/core/base/hash.h"

namespace keras_sparse {
namespace {

constexpr int64_t kGreatestExtentBytes = int64_t{256} << 20;
constexpr int64_t kLeastExtentBytes = int64_t{64} << 10;
// The files grow in steps of an extent.
constexpr int64_t kExtentsOfATier = 64;
// Maximum number of replacing records written at once; a small store reserves fewer entries.
constexpr int64_t kSpareEntries = 4096;
constexpr int64_t kSpareShare = 64;

Status OpenPmem(const StoreOptions& options, std::unique_ptr<RowStore>* store) {
  PmemOptions pmem;
  pmem.file_system = FileSystem::Posix();
  pmem.folder = options.folder;
  pmem.record_bytes = options.record_bytes;
  pmem.capacity = options.capacity;
  pmem.keeps_order = options.keeps_order;
  pmem.extent_bytes =
      std::clamp(options.capacity / kExtentsOfATier, kLeastExtentBytes, kGreatestExtentBytes);
  return PmemStore::Open(pmem, store);
}

const bool kRegistered = RowStore::Register("pmem", OpenPmem);

// Returns the number of entries in a file of `bytes` bytes.
int64_t EntriesIn(int64_t bytes, const EntryLayout& layout) {
  return std::max<int64_t>(0, (bytes - EntryLayout::kHeaderBytes) / layout.stride());
}

int64_t MaxEntries(int64_t capacity, int64_t entries, const EntryLayout& layout) {
  const int64_t extent_bytes = layout.offset(entries);
  const int64_t all =
      capacity / extent_bytes * entries + EntriesIn(capacity % extent_bytes, layout);
  return std::min<int64_t>(all, HashIndex::kNoRow);
}

}  // namespace

Status PmemStore::Open(const PmemOptions& options, std::unique_ptr<RowStore>* store) {
  KERAS_SPARSE_RETURN_IF_ERROR(options.file_system->MakeFolder(options.folder));
  store->reset(new PmemStore(options));
  return Status::Ok();
}

PmemStore::PmemStore(const PmemOptions& options)
    : options_(options),
      layout_{options.record_bytes},
      entries_(
          static_cast<uint32_t>(std::max<int64_t>(1, EntriesIn(options.extent_bytes, layout_)))),
      max_entries_(MaxEntries(options.capacity, entries_, layout_)),
      spare_entries_(std::min(max_entries_,
                              std::clamp<int64_t>(max_entries_ / kSpareShare, 1, kSpareEntries))) {
  if (options.keeps_order) order_ = std::make_unique<LastWriteWins>();
}

PmemStore::~PmemStore() {
  extents_.clear();
  (void)options_.file_system->RemoveFolder(options_.folder);
}

int64_t PmemStore::num_rows() const {
  const SharedLock lock(mutex_);
  return index_.size();
}

int64_t PmemStore::bytes() const {
  const SharedLock lock(mutex_);
  int64_t bytes = 0;
  for (const auto& extent : extents_) bytes += extent->bytes();
  return bytes;
}

int64_t PmemStore::memory_bytes() const {
  const SharedLock lock(mutex_);
  return index_.bytes() + static_cast<int64_t>(free_.capacity() * sizeof(Position)) +
         (order_ == nullptr ? 0 : order_->bytes());
}

void PmemStore::Contains(const int64_t* keys, int64_t n, bool* found) const {
  const SharedLock lock(mutex_);
  index_.Contains(keys, n, found);
}

Status PmemStore::GetTo(const int64_t* keys, int64_t n, char* const* to, bool* found) const {
  const SharedLock lock(mutex_);
  for (int64_t i = 0; i < n; ++i) {
    index_.PrefetchAhead(keys, n, i);
    const Position position = index_.Find(HashKey(keys[i]), keys[i]);
    found[i] = position != HashIndex::kNoRow;
    if (!found[i]) continue;
    const PmemExtent& extent = *extents_[ExtentOf(position)];
    KERAS_SPARSE_RETURN_IF_ERROR(extent.Check(EntryOf(position), &keys[i]));
    std::memcpy(to[i], extent.Entry(EntryOf(position)) + EntryLayout::kEntryHeaderBytes,
                static_cast<size_t>(layout_.record_bytes));
  }
  return Status::Ok();
}

Status PmemStore::Put(const int64_t* keys, int64_t n, const char* records) {
  const MutexLock write_lock(write_mutex_);
  KERAS_SPARSE_RETURN_IF_ERROR(Reserve(keys, n));
  // Records that replace others free as many entries as they use, so each chunk finds free entries.
  for (int64_t begin = 0; begin < n;) {
    const int64_t chunk = std::min(n - begin, num_free());
    KERAS_SPARSE_RETURN_IF_ERROR(
        WriteEntries(keys + begin, chunk, records + begin * layout_.record_bytes));
    const MutexLock lock(mutex_);
    Commit(keys + begin, chunk);
    begin += chunk;
  }
  return Status::Ok();
}

Status PmemStore::Reserve(const int64_t* keys, int64_t n) {
  int64_t num_new = 0;
  for (int64_t i = 0; i < n; ++i) {
    num_new += index_.Find(HashKey(keys[i]), keys[i]) == HashIndex::kNoRow ? 1 : 0;
  }
  const int64_t excess = index_.size() + num_new - max_rows();
  if (excess > 0 && num_new > 0) {
    return TierIsFull(options_.folder, options_.capacity,
                      options_.capacity + excess * layout_.stride());
  }
  const int64_t needed = num_new + std::min(n - num_new, spare_entries_);
  while (num_free() < needed) KERAS_SPARSE_RETURN_IF_ERROR(AddExtent());
  return Status::Ok();
}

Status PmemStore::AddExtent() {
  const uint64_t number = num_created_++;
  std::array<char, 32> name;
  std::snprintf(name.data(), name.size(), "/%06llu.pmem", static_cast<unsigned long long>(number));
  const int64_t num_entries = std::min<int64_t>(entries_, max_entries_ - num_entries_);
  std::unique_ptr<PmemExtent> extent;
  KERAS_SPARSE_RETURN_IF_ERROR(PmemExtent::Create(
      options_.file_system, options_.folder + name.data(), number, layout_, num_entries, &extent));
  const MutexLock lock(mutex_);
  extents_.push_back(std::move(extent));
  num_entries_ += num_entries;
  if (order_ != nullptr) order_->Resize(static_cast<size_t>(num_entries_));
  return Status::Ok();
}

PmemStore::Position PmemStore::FreeEntry(int64_t i) const {
  const auto num_freed = static_cast<int64_t>(free_.size());
  if (i < num_freed) return free_[static_cast<size_t>(num_freed - 1 - i)];
  return static_cast<Position>(end_ + i - num_freed);
}

Status PmemStore::WriteEntries(const int64_t* keys, int64_t n, const char* records) {
  std::vector<char> entry(static_cast<size_t>(layout_.stride()));
  for (int64_t i = 0; i < n; ++i) {
    MakeEntry(keys[i], records + i * layout_.record_bytes, layout_, entry.data());
    const Position position = FreeEntry(i);
    extents_[ExtentOf(position)]->Write(EntryOf(position), entry.data());
  }
  for (const auto& extent : extents_) KERAS_SPARSE_RETURN_IF_ERROR(extent->Sync());
  return Status::Ok();
}

void PmemStore::Commit(const int64_t* keys, int64_t n) {
  std::vector<Position> taken;
  taken.reserve(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) taken.push_back(FreeEntry(i));
  const int64_t num_reused = std::min(n, static_cast<int64_t>(free_.size()));
  free_.resize(free_.size() - static_cast<size_t>(num_reused));
  end_ += n - num_reused;
  for (int64_t i = 0; i < n; ++i) {
    const Position position = taken[static_cast<size_t>(i)];
    if (order_ != nullptr) order_->Append(position);
    const Position old = index_.Exchange(HashKey(keys[i]), keys[i], position);
    if (old != HashIndex::kNoRow) Release(old);
  }
}

void PmemStore::Release(Position position) {
  if (order_ != nullptr) order_->Remove(position);
  free_.push_back(position);
}

Status PmemStore::Erase(const int64_t* keys, int64_t n) {
  const MutexLock write_lock(write_mutex_);
  const MutexLock lock(mutex_);
  for (int64_t i = 0; i < n; ++i) {
    const Position position = index_.Erase(HashKey(keys[i]), keys[i]);
    if (position != HashIndex::kNoRow) Release(position);
  }
  return Status::Ok();
}

Status PmemStore::Clear() {
  const MutexLock write_lock(write_mutex_);
  const MutexLock lock(mutex_);
  index_ = HashIndex(0);
  extents_.clear();
  num_entries_ = 0;
  end_ = 0;
  free_ = std::vector<Position>();
  if (order_ != nullptr) order_ = std::make_unique<LastWriteWins>();
  return Status::Ok();
}

Status PmemStore::Compact() {
  const MutexLock write_lock(write_mutex_);
  const std::vector<char> zeros(static_cast<size_t>(layout_.stride()));
  for (int64_t i = 0; i < num_free(); ++i) {
    const Position position = FreeEntry(i);
    PmemExtent& extent = *extents_[ExtentOf(position)];
    const int64_t entry = EntryOf(position);
    if (std::memcmp(extent.Entry(entry), zeros.data(), zeros.size()) == 0) continue;
    extent.Write(entry, zeros.data());
  }
  std::set<std::string> kept;
  for (const auto& extent : extents_) {
    KERAS_SPARSE_RETURN_IF_ERROR(extent->Sync());
    kept.insert(extent->path());
  }
  return RemoveFilesBut(options_.file_system, options_.folder, kept);
}

Status PmemStore::Walk(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
                       std::vector<char>* records, int64_t* next) const {
  std::vector<int64_t> walked;
  {
    const SharedLock lock(mutex_);
    std::vector<uint32_t> positions;
    *next = index_.AppendSegments(cursor, max_rows, &walked, &positions);
  }
  return AppendRecords(walked, keys, records);
}

int64_t PmemStore::Room() const { return std::max<int64_t>(0, max_rows() - num_rows()); }

Status PmemStore::Oldest(int64_t n, std::vector<int64_t>* keys, std::vector<char>* records) const {
  if (!options_.keeps_order) return RowStore::Oldest(n, keys, records);
  const SharedLock lock(mutex_);
  Position position = order_->first();
  for (int64_t i = 0; i < n && position != LastWriteWins::kEnd; position = order_->Next(position)) {
    const PmemExtent& extent = *extents_[ExtentOf(position)];
    if (!extent.Check(EntryOf(position), nullptr).ok()) continue;
    const char* entry = extent.Entry(EntryOf(position));
    keys->push_back(KeyOfEntry(entry));
    records->insert(records->end(), entry + EntryLayout::kEntryHeaderBytes,
                    entry + layout_.stride());
    ++i;
  }
  return Status::Ok();
}

}  // namespace keras_sparse
