#include "ops/core/exchange/batch_headers.h"

#include <algorithm>

#include "ops/core/exchange/message_format.h"

namespace keras_sparse {
namespace {

Status CheckFault(const BatchHeader& header, const std::string& prefix,
                  const std::vector<BatchTable>& tables) {
  const std::string received = std::to_string(header.received);
  if (header.fault == BatchHeader::kTooManyWords) {
    return ResourceExhausted(prefix + TooManyWords(header.received));
  }
  if (header.fault == BatchHeader::kUnequalInputs) {
    return InvalidArgument(
        prefix + "every input of a whole batch must have as many samples. Received: " +
        std::to_string(header.num_samples) + " of one input and " + received + " of another one");
  }
  if (header.fault < 0 || static_cast<size_t>(header.fault) >= tables.size()) return Status::Ok();
  const BatchTable& table = tables[static_cast<size_t>(header.fault)];
  return InvalidArgument(prefix + "id must be in [0, " + std::to_string(table.input_dim) +
                         ") for table '" + table.name +
                         "'; out_of_range=\"zero\" reads others as zeros. Received: id " +
                         received + " in inputs[" + std::to_string(header.fault) + "]");
}

}  // namespace

Status CheckWholeBatches(const std::vector<BatchHeader>& headers, size_t rank,
                         const std::vector<BatchTable>& tables, int64_t* num_own_samples) {
  const auto num_ranks = static_cast<int64_t>(headers.size());
  const auto prefix = [&headers](size_t r) {
    return "[rank " + std::to_string(r) + " of " + std::to_string(headers.size()) + "] ";
  };
  // First of all, as another exchange's words say nothing here.
  for (size_t r = 0; r < headers.size(); ++r) {
    if (headers[r].checksum == headers[rank].checksum) continue;
    return FailedPrecondition(
        prefix(r) +
        "ranks must call layers, and take their gradients, in the same order outside of a "
        "tf.function. Received: what belongs to another layer than the one that rank " +
        std::to_string(rank) + " calls");
  }
  const auto first = std::find_if(headers.begin(), headers.end(),
                                  [](const BatchHeader& each) { return each.num_samples >= 0; });
  const int64_t num_samples = first == headers.end() ? 0 : first->num_samples;
  for (size_t r = 0; r < headers.size(); ++r) {
    KERAS_SPARSE_RETURN_IF_ERROR(CheckFault(headers[r], prefix(r), tables));
    if (headers[r].num_samples < 0 || headers[r].num_samples == num_samples) continue;
    return InvalidArgument(
        prefix(r) +
        "with dp_input=False every rank must pass all samples of the same batch. Received: " +
        std::to_string(headers[r].num_samples) + " samples, and " + std::to_string(num_samples) +
        " on rank " + std::to_string(first - headers.begin()));
  }
  if (num_samples % num_ranks != 0) {
    return InvalidArgument(prefix(static_cast<size_t>(first - headers.begin())) +
                           "The batch of dp_input=False is not divisible by " +
                           std::to_string(num_ranks) +
                           ", the number of ranks. Drop what is left over, or pad it. Received: " +
                           std::to_string(num_samples) + " samples");
  }
  *num_own_samples = num_samples / num_ranks;
  return Status::Ok();
}

}  // namespace keras_sparse
