#include "ops/core/table/embedding_table.h"

#include <atomic>
#include <utility>

#include "ops/core/base/mutex.h"

namespace keras_sparse {
namespace {

uint64_t NextNumber() {
  static std::atomic<uint64_t> next{0};
  return next++;
}

Status CheckOptions(const TableOptions& options) {
  if (options.output_dim < 1 || options.output_dim > kMaxOutputDim) {
    return InvalidArgument("`output_dim` must be in [1, " + std::to_string(kMaxOutputDim) +
                           "]. Received: output_dim=" + std::to_string(options.output_dim));
  }
  if (options.input_dim < -1) {
    return InvalidArgument(
        "`input_dim` must be at least 0, or -1 for a dynamic table. Received: input_dim=" +
        std::to_string(options.input_dim));
  }
  if (options.shard < 0 || options.shard >= options.num_shards) {
    return InvalidArgument(
        "`shard` must be in [0, num_shards). Received: shard=" + std::to_string(options.shard) +
        ", num_shards=" + std::to_string(options.num_shards));
  }
  if ((options.keeps.gradient_step || options.keeps.frequency) && !options.is_dynamic()) {
    return Status(
        StatusCode::kUnimplemented,
        "a table that keeps the steps or the numbers of gradients must be a dynamic one, as all "
        "ids of a static one keep their rows. Received: input_dim=" +
            std::to_string(options.input_dim));
  }
  if (options.ages_in_seconds && !options.keeps.gradient_step) {
    return InvalidArgument("a table with ages in seconds must keep them: `keeps_gradient_step`");
  }
  return Status::Ok();
}

}  // namespace

EmbeddingTable::EmbeddingTable(const TableOptions& options)
    : options_(options), number_(NextNumber()), state_(options_) {}

Status EmbeddingTable::Open(const TableOptions& options, Executor* executor,
                            std::unique_ptr<EmbeddingTable>* table) {
  KERAS_SPARSE_RETURN_IF_ERROR(CheckOptions(options));
  std::unique_ptr<EmbeddingTable> result(new EmbeddingTable(options));
  const MutexLock lock(result->mutex_);
  KERAS_SPARSE_RETURN_IF_ERROR(result->state_.Open(executor));
  *table = std::move(result);
  return Status::Ok();
}

}  // namespace keras_sparse
