#include "ops/core/index/vocabulary.h"

#include <string>
#include <utility>

#include "ops/core/base/hash.h"

namespace keras_sparse {
namespace {

// The index stores the token minus one as the row.
int64_t TokenOf(const HashIndex& index, int64_t key) {
  const uint32_t row = index.Find(HashKey(key), key);
  return row == HashIndex::kNoRow ? 0 : int64_t{row} + 1;
}

}  // namespace

Vocabulary::Vocabulary(int64_t max_tokens)
    : max_tokens_(max_tokens), index_(/*skip_bits=*/0), counts_(1, 0) {}

int64_t Vocabulary::size() const {
  const SharedLock lock(mutex_);
  return static_cast<int64_t>(keys_.size());
}

void Vocabulary::Find(const int64_t* keys, int64_t n, int64_t* tokens) const {
  const SharedLock lock(mutex_);
  for (int64_t i = 0; i < n; ++i) {
    index_.PrefetchAhead(keys, n, i);
    tokens[i] = TokenOf(index_, keys[i]);
  }
}

void Vocabulary::Add(const int64_t* keys, int64_t n, bool counts, int64_t* tokens) {
  const MutexLock lock(mutex_);
  for (int64_t i = 0; i < n; ++i) {
    index_.PrefetchAhead(keys, n, i);
    int64_t token = TokenOf(index_, keys[i]);
    if (token == 0 && static_cast<int64_t>(keys_.size()) < max_tokens_) {
      index_.Insert(HashKey(keys[i]), keys[i], static_cast<uint32_t>(keys_.size()));
      keys_.push_back(keys[i]);
      counts_.push_back(0);
      token = static_cast<int64_t>(keys_.size());
    }
    counts_[static_cast<size_t>(token)] += counts ? 1 : 0;
    tokens[i] = token;
  }
}

void Vocabulary::Export(std::vector<int64_t>* keys, std::vector<int64_t>* counts) const {
  const SharedLock lock(mutex_);
  keys->insert(keys->end(), keys_.begin(), keys_.end());
  counts->insert(counts->end(), counts_.begin(), counts_.end());
}

Status Vocabulary::Import(const int64_t* keys, int64_t n, const int64_t* counts) {
  if (n > max_tokens_) {
    return InvalidArgument(
        "a vocabulary must have at most `max_tokens` keys. Received: " + std::to_string(n) +
        " keys for max_tokens=" + std::to_string(max_tokens_));
  }
  HashIndex index(/*skip_bits=*/0, n);
  for (int64_t i = 0; i < n; ++i) {
    if (index.Exchange(HashKey(keys[i]), keys[i], static_cast<uint32_t>(i)) != HashIndex::kNoRow) {
      return InvalidArgument("a vocabulary must have each key once. Received: key " +
                             std::to_string(keys[i]) + " again at " + std::to_string(i));
    }
  }
  for (int64_t i = 0; i <= n; ++i) {
    if (counts[i] >= 0) continue;
    return InvalidArgument("counts of a vocabulary must be at least 0. Received: " +
                           std::to_string(counts[i]) + " at " + std::to_string(i));
  }
  const MutexLock lock(mutex_);
  index_ = std::move(index);
  keys_.assign(keys, keys + n);
  counts_.assign(counts, counts + n + 1);
  return Status::Ok();
}

}  // namespace keras_sparse
