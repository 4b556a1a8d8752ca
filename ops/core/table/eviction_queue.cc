#include "ops/core/table/eviction_queue.h"

#include <algorithm>

#include "ops/core/math/prefetch.h"
#include "ops/core/table/records_of_keys.h"
#include "ops/core/table/scan_rows.h"
#include "ops/core/table/table_state.h"

namespace keras_sparse {
namespace {

// A walk keeps one row in `kShare`: evicting a row then costs reading this many rows on average,
// and the queue needs a small part of the rows' memory.
constexpr int64_t kShare = 8;
// How many rows ahead a row's step is prefetched.
constexpr size_t kEvictionsAhead = 16;

}  // namespace

EvictionQueue::Entry EvictionQueue::EntryOf(const TableState& state, int64_t key,
                                            const float* record) const {
  Entry entry;
  const int64_t now = state.rule_state.num_steps() - num_steps_;
  entry.step = now - state.rule_state.AgeOf(record);
  entry.key = key;
  if (by_frequency_) entry.frequency = state.layout().Frequency(record);
  entry.search = search_;
  return entry;
}

EvictionQueue::Entry EvictionQueue::PopFirst() {
  const Entry entry = first();
  if (IsMovedFirst()) {
    std::pop_heap(moved_.begin(), moved_.end(), Entry::Follows);
    moved_.pop_back();
  } else {
    sorted_.pop_back();
  }
  return entry;
}

void EvictionQueue::Move(const Entry& entry) {
  if (!entry.GoesBefore(last_)) return;
  moved_.push_back(entry);
  std::push_heap(moved_.begin(), moved_.end(), Entry::Follows);
}

void EvictionQueue::Clear() {
  sorted_.clear();
  moved_.clear();
  expected_.clear();
}

Status EvictionQueue::Expect(const TableState& state, const std::vector<int64_t>& keys) {
  if (!by_frequency_) return Status::Ok();
  if (version_ != state.version) Clear();
  if (!expected_.empty()) {
    RecordsOfKeys records;
    KERAS_SPARSE_RETURN_IF_ERROR(RecordsOfKeys::Read(state.tiers, expected_, &records));
    for (size_t i = 0; i < expected_.size(); ++i) {
      if (records[i] != nullptr) Move(EntryOf(state, expected_[i], records[i]));
    }
  }
  expected_ = keys;
  return Status::Ok();
}

Status EvictionQueue::Walk(const TableState& state, int64_t least) {
  const auto size = static_cast<size_t>(std::max(least, state.tiers.num_rows() / kShare));
  const auto goes_before = [](const Entry& a, const Entry& b) { return a.GoesBefore(b); };
  version_ = -1;  // stays -1 if the walk fails
  num_steps_ = state.rule_state.num_steps();
  std::vector<Entry> found;
  bool is_cut = false;
  const auto cut = [&] {
    std::nth_element(found.begin(), found.begin() + static_cast<int64_t>(size) - 1, found.end(),
                     goes_before);
    found.resize(size);
    is_cut = true;
  };
  const int64_t last_word = state.layout().record_words() - 1;  // next to the step's word
  const auto take = [&](const std::vector<int64_t>& keys,
                        const std::vector<const float*>& records) {
    for (size_t i = 0; i < keys.size(); ++i) {
      if (i + kEvictionsAhead < keys.size()) PrefetchLine(records[i + kEvictionsAhead] + last_word);
      const Entry entry = EntryOf(state, keys[i], records[i]);
      if (is_cut && found[size - 1].GoesBefore(entry)) continue;
      found.push_back(entry);
      if (found.size() >= 2 * size) cut();
    }
  };
  ScanFirstTier(state.tiers, take);
  KERAS_SPARSE_RETURN_IF_ERROR(ScanLowerTiers(state.tiers, take));
  if (found.size() > size) cut();
  std::sort(found.begin(), found.end(), goes_before);
  sorted_.assign(found.rbegin(), found.rend());
  last_ = found.empty() ? Entry() : found.back();
  version_ = state.version;
  return Status::Ok();
}

Status EvictionQueue::LookAt(const TableState& state, int64_t n) {
  std::vector<Entry> entries;
  std::vector<int64_t> keys;
  HashIndex popped(0);
  while (!empty() && static_cast<int64_t>(keys.size()) < n) {
    const Entry entry = PopFirst();
    // A row that was evicted and created again has two entries; both are placed by its current
    // record.
    if (HasKey(popped, entry.key)) continue;
    popped.Insert(HashKey(entry.key), entry.key, 0);
    entries.push_back(entry);
    keys.push_back(entry.key);
  }
  RecordsOfKeys records;
  const Status status = RecordsOfKeys::Read(state.tiers, keys, &records);
  if (!status.ok()) {
    PutBack(entries);
    return status;
  }
  std::vector<Entry> left;
  std::vector<Entry> moved;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (records[i] == nullptr) continue;
    const Entry entry = EntryOf(state, keys[i], records[i]);
    // A gradient moves a row towards the end. This row was created again, and Expect has placed it.
    if (entry.GoesBefore(entries[i])) continue;
    (entry.IsAt(entries[i]) ? left : moved).push_back(entry);
  }
  PutBack(left);
  for (const Entry& entry : moved) Move(entry);
  return Status::Ok();
}

void EvictionQueue::Take(int64_t n, const HashIndex& kept, std::vector<Entry>* taken,
                         std::vector<int64_t>* keys) {
  while (!empty() && first().search == search_ && static_cast<int64_t>(keys->size()) < n) {
    const Entry entry = PopFirst();
    // The second entry of a row that was created again.
    if (!taken->empty() && taken->back().IsAt(entry)) continue;
    taken->push_back(entry);
    if (!HasKey(kept, entry.key)) keys->push_back(entry.key);
  }
}

Status EvictionQueue::Find(const TableState& state, int64_t n, const HashIndex& kept,
                           EvictionCandidates* candidates) {
  *candidates = EvictionCandidates();
  ++search_;
  if (version_ != state.version) {
    sorted_.clear();
    moved_.clear();
  }
  bool has_walked = false;
  std::vector<Entry> taken;
  std::vector<int64_t> keys;
  for (Take(n, kept, &taken, &keys); static_cast<int64_t>(keys.size()) < n;
       Take(n, kept, &taken, &keys)) {
    Status status;
    if (!empty()) {
      status = LookAt(state, n - static_cast<int64_t>(keys.size()));
    } else if (!has_walked) {
      has_walked = true;
      taken.clear();
      keys.clear();
      status = Walk(state, n + kept.size());
    } else {
      break;
    }
    if (!status.ok()) PutBack(taken);
    KERAS_SPARSE_RETURN_IF_ERROR(status);
  }
  PutBack(taken);  // the update may still be rejected
  const std::vector<bool> above = state.tiers.AreAbove(0, keys);
  for (const bool is_above : {true, false}) {
    for (size_t i = 0; i < keys.size(); ++i) {
      if (above[i] == is_above) candidates->keys.push_back(keys[i]);
    }
    if (is_above) candidates->num_above = candidates->keys.size();
  }
  return Status::Ok();
}

}  // namespace keras_sparse
