#include "ops/core/table/eviction_queue.h"

#include <algorithm>

#include "ops/core/math/prefetch.h"
#include "ops/core/table/eviction_candidates.h"
#include "ops/core/table/records_of_keys.h"
#include "ops/core/table/table_state.h"
#include "ops/core/table/walk_rows.h"

namespace keras_sparse {
namespace {

// A walk keeps one of so many rows: to let a row go costs looking at this many, in the mean, and
// the queue takes a small part of what the rows do.
constexpr int64_t kShare = 8;
// Rows whose step is asked for before it is read.
constexpr size_t kAhead = 16;

}  // namespace

Status EvictionQueue::Walk(const TableState& state, int64_t least) {
  const auto size = static_cast<size_t>(std::max(least, state.tiers.num_rows() / kShare));
  const auto goes_before = [](const Entry& a, const Entry& b) { return a.GoesBefore(b); };
  std::vector<Entry> found;
  bool is_cut = false;
  const auto cut = [&] {
    std::nth_element(found.begin(), found.begin() + static_cast<int64_t>(size) - 1, found.end(),
                     goes_before);
    found.resize(size);
    is_cut = true;
  };
  const int64_t last_word = state.layout().record_words() - 1;  // that of the step
  const auto take = [&](const std::vector<int64_t>& keys,
                        const std::vector<const float*>& records) {
    for (size_t i = 0; i < keys.size(); ++i) {
      if (i + kAhead < keys.size()) PrefetchLine(records[i + kAhead] + last_word);
      const Entry entry = {-int64_t{state.rule_state.AgeOf(records[i])}, keys[i], search_};
      if (is_cut && found[size - 1].GoesBefore(entry)) continue;
      found.push_back(entry);
      if (found.size() >= 2 * size) cut();
    }
  };
  WalkFirstTier(state.tiers, take);
  KERAS_SPARSE_RETURN_IF_ERROR(WalkLowerTiers(state.tiers, take));
  if (found.size() > size) cut();
  std::sort(found.begin(), found.end(), goes_before);
  sorted_.assign(found.rbegin(), found.rend());
  version_ = state.version;
  num_steps_ = state.rule_state.num_steps();
  return Status::Ok();
}

Status EvictionQueue::LookAt(const TableState& state, int64_t n) {
  const size_t num_entries = std::min(static_cast<size_t>(n), sorted_.size());
  std::vector<int64_t> keys;
  for (size_t i = 0; i < num_entries; ++i) keys.push_back(sorted_[sorted_.size() - 1 - i].key);
  RecordsOfKeys records;
  KERAS_SPARSE_RETURN_IF_ERROR(RecordsOfKeys::Read(state.tiers, keys, &records));
  std::vector<Entry> left;
  const int64_t now = state.rule_state.num_steps() - num_steps_;
  for (size_t i = 0; i < num_entries; ++i) {
    Entry entry = sorted_.back();
    sorted_.pop_back();
    if (records[i] == nullptr) continue;
    // Any gradient has taken it behind all rows of the walk.
    if (now - state.rule_state.AgeOf(records[i]) != entry.step) continue;
    entry.search = search_;
    left.push_back(entry);
  }
  PutBack(left);
  return Status::Ok();
}

void EvictionQueue::Take(int64_t n, const HashIndex& kept, std::vector<Entry>* taken,
                         std::vector<int64_t>* keys) {
  while (!sorted_.empty() && sorted_.back().search == search_ &&
         static_cast<int64_t>(keys->size()) < n) {
    taken->push_back(sorted_.back());
    sorted_.pop_back();
    const int64_t key = taken->back().key;
    if (!HasKey(kept, key)) keys->push_back(key);
  }
}

Status EvictionQueue::Find(const TableState& state, int64_t n, const HashIndex& kept,
                           EvictionCandidates* candidates) {
  *candidates = EvictionCandidates();
  ++search_;
  if (version_ != state.version) sorted_.clear();
  bool has_walked = false;
  std::vector<Entry> taken;
  std::vector<int64_t> keys;
  for (Take(n, kept, &taken, &keys); static_cast<int64_t>(keys.size()) < n;
       Take(n, kept, &taken, &keys)) {
    Status status;
    if (!sorted_.empty()) {
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
  PutBack(taken);  // the update may still be refused
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
