// Lookups of whole batches: ranks send each other rows without requests.
#ifndef KERAS_SPARSE_OPS_CORE_EXCHANGE_WHOLE_BATCHES_H_
#define KERAS_SPARSE_OPS_CORE_EXCHANGE_WHOLE_BATCHES_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/exchange/exchange_layout.h"
#include "ops/core/exchange/message_format.h"
#include "ops/core/math/float_type.h"

namespace keras_sparse {

// A rank looks up all samples of the inputs whose tables it has, and sends rank r the rows of the
// r-th part of the samples. The layout has a table for each input; its type of rows is float32 if
// its rows are pooled.

// Checks a rank's own batch; an error is sent in place of rows. Returns InvalidArgument unless all
// inputs have the same number of samples; ResourceExhausted for more words than a rank may send or
// receive: as if all rows had the wire's type, which is at least as wide as theirs.
//   num_samples  one per part of the rank
Status CheckOwnBatch(const ExchangeLayout& layout, const std::vector<int64_t>& num_samples,
                     FloatType wire_type);

// Computes the number of samples of each rank.
//   blocks  (num_ranks), each with the size of its rank's batch
// Returns the errors of CheckBlocks. Returns InvalidArgument that begins with `[rank r of n]` for
// sizes that differ, or that are not divisible by the number of ranks. A rank without parts has no
// batch.
Status CheckWholeBatches(const ExchangeLayout& layout, const std::vector<Block>& blocks,
                         int64_t* num_own_samples);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_EXCHANGE_WHOLE_BATCHES_H_
