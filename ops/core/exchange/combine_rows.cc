#include "ops/core/exchange/combine_rows.h"

#include <algorithm>
#include <array>
#include <functional>
#include <string>

#include "ops/core/math/convert_floats.h"
#include "ops/core/math/dot.h"
#include "ops/core/math/prefetch.h"
#include "ops/core/math/vector_math.h"

namespace keras_sparse {
namespace {

constexpr int64_t kIdsPerReplyRun = 512;
constexpr int64_t kNanosecondsPerReplyId = 20;

// Some consecutive bags of one input.
struct ReplyRun {
  size_t input;
  int64_t first_bag;
  int64_t last_bag;
};

void ForEachReplyRun(const std::vector<CombinedInput>& inputs, Executor* executor,
                     const std::function<void(const ReplyRun&)>& body) {
  std::vector<ReplyRun> runs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::vector<int64_t> cuts = CutBags(inputs[i].bags, kIdsPerReplyRun);
    for (size_t c = 0; c + 1 < cuts.size(); ++c) runs.push_back({i, cuts[c], cuts[c + 1]});
  }
  executor->ParallelFor(static_cast<int64_t>(runs.size()), kIdsPerReplyRun * kNanosecondsPerReplyId,
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i) body(runs[static_cast<size_t>(i)]);
                        });
}

void Prefetch(const ResponseColumns& columns, const CombinedInput& input, int64_t begin,
              int64_t end) {
  end = std::min(end, input.bags.num_ids);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t row = input.positions[i];
    const ResponseRun& run = columns.Run(row);
    PrefetchBytes(run.Row(row, columns.num_columns), FloatBytes(run.type) * columns.num_columns);
  }
}

// The functions below write the columns of an output that start at `output`.

void CopyReplies(const ResponseColumns& columns, const CombinedInput& input, const ReplyRun& run,
                 const OutputRows& output) {
  for (int64_t i = run.first_bag; i < run.last_bag; ++i) {
    if (i % kBlockRows == 0) Prefetch(columns, input, i + kBlockRows, i + 2 * kBlockRows);
    const int64_t at = input.positions[i];
    const ResponseRun& replies = columns.Run(at);
    const char* row = replies.Row(at, columns.num_columns);
    if (output.are_floats() && replies.type == FloatType::kFloat32) {
      CopyRow(reinterpret_cast<const float*>(row), columns.num_columns, output.FloatRow(i));
    } else {
      ConvertFloats(replies.type, row, columns.num_columns, output.type, output.Row(i));
    }
  }
}

// Reply rows of one type that are added together.
class ReplyBlock {
 public:
  explicit ReplyBlock(const ResponseColumns& columns) : columns_(columns) {}

  // Reads the rows of the first positions that have one type, at most kBlockRows. Returns their
  // number.
  int64_t Read(const uint32_t* positions, int64_t n) {
    n = std::min(n, kBlockRows);
    for (int64_t i = 0; i < n; ++i) {
      const ResponseRun& run = columns_.Run(positions[i]);
      if (i == 0) type_ = run.type;
      if (run.type != type_) return i;
      rows_[static_cast<size_t>(i)] = run.Row(positions[i], columns_.num_columns);
    }
    return n;
  }

  void AddTo(const float* weights, int64_t n, float* sum) const {
    const RowSum to = {sum, sum};
    const void* const* rows = rows_.data();
    switch (type_) {
      case FloatType::kBFloat16:
        return SumRows<BFloat16Rows>(rows, weights, n, columns_.num_columns, to);
      case FloatType::kFloat16:
        return SumRows<Float16Rows>(rows, weights, n, columns_.num_columns, to);
      default:
        return SumRows<Float32Rows>(rows, weights, n, columns_.num_columns, to);
    }
  }

 private:
  const ResponseColumns& columns_;
  FloatType type_ = FloatType::kFloat32;
  std::array<const void*, kBlockRows> rows_ = {};
};

void PoolReplies(const ResponseColumns& columns, const CombinedInput& input, const ReplyRun& run,
                 const OutputRows& output) {
  ReplyBlock block(columns);
  std::vector<float> sums(output.are_floats() ? 0 : static_cast<size_t>(columns.num_columns));
  for (int64_t b = run.first_bag; b < run.last_bag; ++b) {
    float* sum = output.are_floats() ? output.FloatRow(b) : sums.data();
    std::fill_n(sum, columns.num_columns, 0.0f);
    const int64_t end = input.bags.row_splits[b + 1];
    for (int64_t at = input.bags.row_splits[b]; at < end;) {
      const int64_t n = block.Read(input.positions + at, end - at);
      Prefetch(columns, input, at + n, at + n + kBlockRows);
      block.AddTo(input.bags.weights == nullptr ? nullptr : input.bags.weights + at, n, sum);
      at += n;
    }
    Scale(input.bags.Scale(b), columns.num_columns, sum);
    if (!output.are_floats()) WriteFloats(output.type, sum, columns.num_columns, output.Row(b));
  }
}

}  // namespace

Status CheckInputs(const ExchangeLayout& layout, const ResponseRows& rows,
                   const std::vector<CombinedInput>& inputs) {
  for (const CombinedInput& input : inputs) {
    KERAS_SPARSE_RETURN_IF_ERROR(input.bags.Check());
    if (input.table >= layout.tables.size()) {
      return InvalidArgument("`input_tables` must name tables of the layout. Received: table " +
                             std::to_string(input.table) + " of " +
                             std::to_string(layout.tables.size()));
    }
    uint32_t most = 0;
    for (int64_t i = 0; i < input.bags.num_ids; ++i) most = std::max(most, input.positions[i]);
    if (input.bags.num_ids == 0 || most < rows.num_rows(input.table)) continue;
    return InvalidArgument("`positions` must be below the number of reply rows, " +
                           std::to_string(rows.num_rows(input.table)) +
                           ". Received: " + std::to_string(most));
  }
  return Status::Ok();
}

void CombineRows(const ExchangeLayout& layout,
                 const std::vector<std::vector<ResponseColumns>>& columns,
                 const std::vector<CombinedInput>& inputs, const std::vector<OutputRows>& outputs,
                 Executor* executor) {
  ForEachReplyRun(inputs, executor, [&](const ReplyRun& run) {
    const CombinedInput& input = inputs[run.input];
    const OutputRows output = outputs[run.input].Of(layout.tables[input.table].dim);
    for (const ResponseColumns& each : columns[input.table]) {
      const bool pools = input.bags.combiner != Combiner::kNone;
      (pools ? PoolReplies : CopyReplies)(each, input, run, output.From(each.first_column));
    }
  });
}

void CombineWeightsGradient(const ExchangeLayout& layout,
                            const std::vector<std::vector<ResponseColumns>>& columns,
                            const std::vector<CombinedInput>& inputs,
                            const std::vector<GradientRows>& output_grads,
                            const std::vector<float*>& weight_grads, Executor* executor) {
  ForEachReplyRun(inputs, executor, [&](const ReplyRun& run) {
    const CombinedInput& input = inputs[run.input];
    const int64_t dim = layout.tables[input.table].dim;
    RowsAsFloats rows(output_grads[run.input], dim);
    std::vector<float> decoded(static_cast<size_t>(dim));
    float* grads = weight_grads[run.input];
    const int64_t* splits = input.bags.row_splits;
    std::fill(grads + splits[run.first_bag], grads + splits[run.last_bag], 0.0f);
    for (const ResponseColumns& each : columns[input.table]) {
      for (int64_t b = run.first_bag; b < run.last_bag; ++b) {
        const float* output_grad = rows.Row(b) + each.first_column;
        for (int64_t i = splits[b]; i < splits[b + 1]; ++i) {
          const ResponseRun& replies = each.Run(input.positions[i]);
          const void* row = replies.Row(input.positions[i], each.num_columns);
          if (replies.type != FloatType::kFloat32) {
            ReadFloats(replies.type, row, each.num_columns, decoded.data());
            row = decoded.data();
          }
          grads[i] += Dot(static_cast<const float*>(row), output_grad, each.num_columns);
        }
      }
    }
    input.bags.FinishWeightsGradient(run.first_bag, run.last_bag, grads);
  });
}

}  // namespace keras_sparse
