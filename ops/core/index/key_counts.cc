#include "ops/core/index/key_counts.h"

#include <algorithm>
#include <utility>

#include "ops/core/base/hash.h"

namespace keras_sparse {
namespace {

constexpr size_t kLeastSlots = 4;

// Limits of a table's used slots: the maximum, the number after shrinking, and the minimum.
size_t MostEntries(size_t num_slots) { return num_slots * 7 / 8; }
size_t SlotsFor(size_t num_entries) { return num_entries * 6 / 5 + kLeastSlots; }
bool IsSparse(size_t num_entries, size_t num_slots) {
  return num_slots > 2 * kLeastSlots && num_entries * 100 < (num_slots - kLeastSlots) * 77;
}

}  // namespace

size_t KeyCounts::Find(uint64_t place, bool* found) const {
  size_t at = Home(place);
  for (size_t distance = 0;; ++distance, at = Next(at)) {
    const Entry& entry = slots_[at];
    *found = entry.count != 0 && entry.place() == place;
    if (*found || entry.count == 0) return at;
    const size_t other = Distance(at);
    if (other < distance || (other == distance && entry.place() > place)) return at;
  }
}

uint32_t KeyCounts::Get(uint64_t hash) const {
  if (slots_.empty()) return 0;
  bool found = false;
  const size_t at = Find(PlaceOf(hash), &found);
  return found ? slots_[at].count : 0;
}

uint32_t KeyCounts::Add(uint64_t hash, uint32_t n) {
  const uint64_t place = PlaceOf(hash);
  bool found = false;
  const size_t at = slots_.empty() ? 0 : Find(place, &found);
  if (found) {
    uint32_t& count = slots_[at].count;
    count += std::min(n, UINT32_MAX - count);
    return count;
  }
  Insert(place, n);
  return n;
}

void KeyCounts::Set(uint64_t hash, uint32_t count) {
  if (count == 0) return Erase(hash);
  const uint64_t place = PlaceOf(hash);
  bool found = false;
  const size_t at = slots_.empty() ? 0 : Find(place, &found);
  if (found) {
    slots_[at].count = count;
  } else {
    Insert(place, count);
  }
}

void KeyCounts::Insert(uint64_t place, uint32_t count) {
  const auto size = static_cast<size_t>(size_) + 1;
  if (size > MostEntries(slots_.size())) {
    size_t num_slots = std::max(slots_.size() + slots_.size() / 10, SlotsFor(1));
    while (size > MostEntries(num_slots)) ++num_slots;
    Resize(num_slots);
  }
  bool found = false;
  Place(Find(place, &found), place, count);
  ++size_;
}

void KeyCounts::Place(size_t at, uint64_t place, uint32_t count) {
  Entry carried = {static_cast<uint32_t>(place), static_cast<uint32_t>(place >> 32), count};
  for (; carried.count != 0; at = Next(at)) std::swap(slots_[at], carried);
}

void KeyCounts::Erase(uint64_t hash) {
  if (slots_.empty()) return;
  bool found = false;
  size_t at = Find(PlaceOf(hash), &found);
  if (!found) return;
  // Moves the rest of the run one slot towards home.
  for (size_t next = Next(at); slots_[next].count != 0 && Distance(next) > 0; next = Next(next)) {
    slots_[at] = slots_[next];
    at = next;
  }
  slots_[at].count = 0;
  --size_;
  const auto size = static_cast<size_t>(size_);
  if (IsSparse(size, slots_.size())) Resize(SlotsFor(size));
}

void KeyCounts::Resize(size_t num_slots) {
  std::vector<Entry> old(num_slots);
  old.swap(slots_);
  // In the order of places, so that nearly all entries are placed after the previous one. The old
  // table's first run may begin with entries that belong to its end.
  size_t first = 0;
  while (first < old.size() && old[first].count != 0 &&
         HomeIn(old.size(), old[first].place()) > first) {
    ++first;
  }
  size_t next = 0;
  for (size_t i = 0; i < old.size(); ++i) {
    const Entry& entry = old[first + i < old.size() ? first + i : first + i - old.size()];
    if (entry.count == 0) continue;
    const size_t at = std::max(next, Home(entry.place()));
    if (at < num_slots) {
      slots_[at] = entry;
      next = at + 1;
    } else {
      bool found = false;
      Place(Find(entry.place(), &found), entry.place(), entry.count);
    }
  }
}

int64_t KeyCounts::Walk(int64_t cursor, int64_t num_entries, std::vector<int64_t>* keys,
                        std::vector<uint32_t>* counts) const {
  constexpr int64_t kEnd = int64_t{1} << kCursorBits;
  const auto position = [this](uint64_t hash) {
    return static_cast<int64_t>((hash << skip_bits_) >> (64 - kCursorBits));
  };
  // Hashes are evenly distributed: each of these ranges has about as many.
  const auto most = static_cast<size_t>(std::max<int64_t>(1, num_entries));
  const int64_t num_pieces = std::max<int64_t>(1, size_ / static_cast<int64_t>(most));
  int64_t end = std::min(kEnd, cursor + std::max<int64_t>(1, kEnd / num_pieces));
  std::vector<std::pair<uint64_t, uint32_t>> piece;
  for (const Entry& entry : slots_) {
    if (entry.count == 0) continue;
    const uint64_t hash = HashOf(entry);
    if (position(hash) >= cursor && position(hash) < end) piece.emplace_back(hash, entry.count);
  }
  std::sort(piece.begin(), piece.end());
  // Entries with one position stay together.
  if (piece.size() > most && position(piece[most].first) > position(piece[0].first)) {
    end = position(piece[most].first);
    while (position(piece.back().first) >= end) piece.pop_back();
  }
  for (const auto& [hash, count] : piece) {
    keys->push_back(KeyOfHash(hash));
    counts->push_back(count);
  }
  return end < kEnd ? end : -1;
}

}  // namespace keras_sparse
