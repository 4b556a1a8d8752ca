// Vocabulary: the tokens of keys, assigned in the order in which keys first occur.
#ifndef KERAS_SPARSE_OPS_CORE_INDEX_VOCABULARY_H_
#define KERAS_SPARSE_OPS_CORE_INDEX_VOCABULARY_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/mutex.h"
#include "ops/core/base/status.h"
#include "ops/core/index/hash_index.h"

namespace keras_sparse {

// Keys have tokens 1, 2, ... up to a maximum; a key without a token has token 0. Added keys are
// never lost, and every int64 is a valid key.
//
// Thread safety: every method may be called from any thread. Each call sees all of another call's
// effects or none.
class Vocabulary {
 public:
  static constexpr int64_t kMaxTokens = 0xFFFFFFFE;  // because of the index's row numbers

  // REQUIRES: max_tokens is in [1, kMaxTokens]
  explicit Vocabulary(int64_t max_tokens);

  int64_t max_tokens() const { return max_tokens_; }
  int64_t size() const;

  // Returns the token of each key.
  //   keys, tokens  (n)
  void Find(const int64_t* keys, int64_t n, int64_t* tokens) const;

  // As Find, but assigns the next token to a new key, in the order of `keys`, until tokens run out.
  //   counts  whether each key increases its token's count
  void Add(const int64_t* keys, int64_t n, bool counts, int64_t* tokens);

  // Appends the keys in the order of their tokens, starting with token 1, and each token's count,
  // starting with token 0.
  void Export(std::vector<int64_t>* keys, std::vector<int64_t>* counts) const;

  // Replaces all keys and counts by the result of Export. If it fails, nothing has changed.
  //   keys    (n)
  //   counts  (n + 1)
  Status Import(const int64_t* keys, int64_t n, const int64_t* counts);

 private:
  const int64_t max_tokens_;
  mutable SharedMutex mutex_;
  HashIndex index_ GUARDED_BY(mutex_);
  std::vector<int64_t> keys_ GUARDED_BY(mutex_);    // of the tokens from 1 on
  std::vector<int64_t> counts_ GUARDED_BY(mutex_);  // of all tokens
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_INDEX_VOCABULARY_H_
