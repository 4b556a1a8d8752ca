// What ranks tell each other that look up whole batches.
#ifndef KERAS_SPARSE_OPS_CORE_EXCHANGE_BATCH_HEADERS_H_
#define KERAS_SPARSE_OPS_CORE_EXCHANGE_BATCH_HEADERS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ops/core/base/status.h"

namespace keras_sparse {

// A rank sends these words before the vectors that go to another rank. All ranks see those of all,
// so that what is wrong on one of them is an error on all in the same step.
struct BatchHeader {
  int64_t checksum;     // of the exchange
  int64_t num_samples;  // -1 on a rank that has no inputs
  int64_t fault;        // the number of an input with a bad id, or one of these
  int64_t received;     // that id, or the number of words or samples

  static constexpr int64_t kNone = -1;
  static constexpr int64_t kTooManyWords = -2;
  static constexpr int64_t kUnequalInputs = -3;
};
constexpr int64_t kBatchHeaderWords = sizeof(BatchHeader) / sizeof(int64_t);

// The table of an input.
struct BatchTable {
  std::string name;
  int64_t input_dim;
};

// Says how many samples are each rank's.
//   headers  those of all ranks
//   rank     this one
//   tables   one an input
// An error begins with `[rank r of n]`, the first rank that is not as it should be. InvalidArgument
// for a bad id, inputs of different sizes, or a size that the number of ranks does not divide;
// ResourceExhausted for too many words; FailedPrecondition for what is of another exchange.
Status CheckWholeBatches(const std::vector<BatchHeader>& headers, size_t rank,
                         const std::vector<BatchTable>& tables, int64_t* num_own_samples);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_EXCHANGE_BATCH_HEADERS_H_
