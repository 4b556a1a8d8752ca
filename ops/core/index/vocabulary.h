// The tokens of keys, given in the order in which keys first appear.
#ifndef KERAS_SPARSE_OPS_CORE_INDEX_VOCABULARY_H_
#define KERAS_SPARSE_OPS_CORE_INDEX_VOCABULARY_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/mutex.h"
#include "ops/core/base/status.h"
#include "ops/core/index/hash_index.h"

namespace keras_sparse {

// Keys have tokens 1, 2, ... up to a most; token 0 stands for a key that has none. What is added is
// never lost, and every int64 is a key.
//
// Thread safety: every method may be called from any thread. Each sees all of another or nothing.
class Vocabulary {
 public:
  static constexpr int64_t kMaxTokens = 0xFFFFFFFE;  // as the index counts rows

  // REQUIRES: max_tokens is in [1, kMaxTokens].
  explicit Vocabulary(int64_t max_tokens);

  int64_t max_tokens() const { return max_tokens_; }
  int64_t size() const;

  // Reads the token of each key.
  //   keys, tokens  (n)
  void Find(const int64_t* keys, int64_t n, int64_t* tokens) const;

  // The same, where a new key gets the next token as long as there is one, in the order of `keys`.
  //   counts  whether each key counts with its token
  void Add(const int64_t* keys, int64_t n, bool counts, int64_t* tokens);

  // Appends the keys in the order of their tokens from 1 on, and how often each token was counted,
  // beginning with token 0.
  void Export(std::vector<int64_t>* keys, std::vector<int64_t>* counts) const;

  // Replaces everything by what Export gave. Where it fails nothing has changed.
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
