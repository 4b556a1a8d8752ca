// Ranks that exchange rows inside one process.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_EXCHANGE_EXCHANGE_TESTING_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_EXCHANGE_EXCHANGE_TESTING_H_

#include "ops/core/exchange/combine_rows.h"
#include "ops/core/exchange/gathered_rows.h"
#include "ops/core/exchange/response_rows.h"
#include "ops/core/exchange/return_gradients.h"
#include "ops/core/exchange/row_request.h"
#include "tests/ops/core/exchange/placed_table.h"
#include "tests/ops/core/support/reference.h"
#include "tests/ops/core/support/table_access.h"
#include "tests/ops/core/support/table_testing.h"

namespace keras_sparse {

// The element of a whole table: small integers, so that sums are exact in any order.
inline float Element(int64_t key, int64_t column) {
  return static_cast<float>((key * 31 + column * 7) % 64 - 20);
}

template <typename T>
std::vector<T*> Pointers(std::vector<std::vector<T>>* blocks) {
  std::vector<T*> pointers;
  for (auto& block : *blocks) pointers.push_back(block.data());
  return pointers;
}

template <typename T>
std::vector<void*> VoidPointers(std::vector<std::vector<T>>* blocks) {
  const std::vector<T*> pointers = Pointers(blocks);
  return {pointers.begin(), pointers.end()};
}

// The ids of one input on one rank. Owned, unlike RequestInput.
struct Ids {
  size_t table = 0;
  std::vector<int64_t> ids;
  Combiner combiner = Combiner::kNone;
  std::vector<int64_t> splits;
  std::vector<float> weights;

  RequestInput request() const {
    Bags bags;
    bags.combiner = combiner;
    bags.num_ids = static_cast<int64_t>(ids.size());
    bags.num_bags =
        combiner == Combiner::kNone ? bags.num_ids : static_cast<int64_t>(splits.size()) - 1;
    if (combiner != Combiner::kNone) bags.row_splits = splits.data();
    if (!weights.empty()) bags.weights = weights.data();
    return {table, ids.data(), bags};
  }
};

// One rank: its tables, and its state between the steps of a lookup.
class Rank {
 public:
  Rank(const std::vector<PlacedTable>& tables, int64_t num_ranks, int64_t rank,
       FloatType wire_type = FloatType::kFloat32, int64_t num_keys = 64)
      : layout_(Layout(tables, num_ranks, rank)), wire_type_(wire_type) {
    for (const ExchangeLayout::Part& part : layout_.own_parts()) {
      OpenPart(tables[part.table], layout_.slice(part), num_ranks, num_keys);
    }
  }

  const ExchangeLayout& layout() const { return layout_; }
  const GatheredRows& served() const { return *served_; }
  // Of one own part, as GatheredRows::WriteIds gives them.
  const std::vector<int64_t>& served_ids(size_t part) const { return served_ids_[part]; }
  const std::vector<int64_t>& served_splits(size_t part) const { return served_splits_[part]; }

  // The blocks that go to each rank.
  Status Request(const std::vector<Ids>& inputs, Executor* executor,
                 std::vector<std::vector<Word>>* blocks);
  Status Serve(const std::vector<std::vector<Word>>& blocks, Executor* executor,
               std::vector<std::vector<Word>>* replies);
  std::vector<std::vector<float>> Combine(std::vector<std::vector<Word>> replies,
                                          Executor* executor);
  std::vector<std::vector<float>> Return(const std::vector<std::vector<float>>& output_grads,
                                         float scale, Executor* executor);
  std::vector<std::vector<float>> Gather(const std::vector<std::vector<float>>& grads,
                                         Executor* executor);
  std::vector<CombinedInput> combined() const;
  const std::vector<int64_t>& reply_rows() const { return reply_rows_; }

 private:
  void ExpectCombinedAmongOthers(const std::vector<std::vector<ResponseColumns>>& columns,
                                 const std::vector<std::vector<float>>& outputs,
                                 Executor* executor);

  void OpenPart(const PlacedTable& table, const ExchangedSlice& slice, int64_t num_ranks,
                int64_t num_keys);

  ExchangeLayout layout_;
  FloatType wire_type_;
  std::vector<std::unique_ptr<EmbeddingTable>> tables_;
  std::vector<Ids> inputs_;
  std::vector<std::vector<uint32_t>> positions_;
  std::vector<std::vector<int64_t>> splits_;
  std::vector<std::vector<float>> scales_;
  std::vector<int64_t> reply_rows_;
  std::vector<std::vector<Word>> received_;
  std::unique_ptr<GatheredRows> served_;
  std::vector<std::vector<int64_t>> served_ids_;
  std::vector<std::vector<int64_t>> served_splits_;
};

inline void Rank::OpenPart(const PlacedTable& table, const ExchangedSlice& slice, int64_t num_ranks,
                           int64_t num_keys) {
  TableOptions options;
  options.output_dim = slice.num_columns;
  options.out_of_range_is_zero = table.out_of_range_is_zero;
  options.types.row = table.row_type;
  const bool is_static = table.input_dim >= 0;
  if (is_static) {
    options.input_dim = table.by_rows ? (table.input_dim - slice.rank - 1 + num_ranks) / num_ranks
                                      : table.input_dim;
  }
  tables_.push_back(Open(options));
  for (int64_t key = is_static ? 0 : -num_keys; key < (is_static ? table.input_dim : num_keys);
       ++key) {
    if (table.by_rows && (key % num_ranks + num_ranks) % num_ranks != slice.rank) continue;
    std::vector<float> row;
    for (int64_t c = 0; c < slice.num_columns; ++c) {
      row.push_back(Element(key, slice.first_column + c));
    }
    const int64_t local = table.by_rows && is_static ? key / num_ranks : key;
    EXPECT_TRUE(
        IsOk(ImportRows(tables_.back().get(), &local, 1, row.data(), slice.num_columns, Inline())));
  }
}

inline Status Rank::Request(const std::vector<Ids>& inputs, Executor* executor,
                            std::vector<std::vector<Word>>* blocks) {
  inputs_ = inputs;
  std::vector<RequestInput> requests;
  for (const Ids& ids : inputs_) requests.push_back(ids.request());
  std::unique_ptr<RowRequest> request;
  KERAS_SPARSE_RETURN_IF_ERROR(
      RowRequest::Create(layout_, requests, wire_type_, executor, &request));
  RowRequest::Result result;
  for (size_t r = 0; r < layout_.num_ranks; ++r) {
    blocks->emplace_back(static_cast<size_t>(request->num_words(r)));
  }
  for (auto& block : *blocks) result.blocks.push_back(block.data());
  positions_.assign(inputs.size(), {});
  splits_.assign(inputs.size(), {});
  scales_.assign(inputs.size(), {});
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Bags& bags = requests[i].bags;
    positions_[i].resize(static_cast<size_t>(request->num_positions(i)));
    const bool is_pooled = bags.combiner != Combiner::kNone;
    if (is_pooled) splits_[i].resize(static_cast<size_t>(bags.num_bags) + 1);
    if (is_pooled && bags.weights == nullptr) scales_[i].resize(static_cast<size_t>(bags.num_bags));
    result.inputs.push_back({positions_[i].data(), is_pooled ? splits_[i].data() : nullptr,
                             scales_[i].empty() ? nullptr : scales_[i].data()});
  }
  reply_rows_.assign(2 * layout_.tables.size() * layout_.num_ranks, -1);
  result.reply_rows = reply_rows_.data();
  request->Write(result, executor);
  const ResponseRows rows(layout_, reply_rows_.data());
  for (size_t r = 0; r < layout_.num_ranks; ++r) {
    EXPECT_EQ(request->num_reply_words(r), kHeaderWords + rows.ReplyWords(wire_type_)[r]);
    EXPECT_EQ(request->num_gradient_words(r),
              kHeaderWords + FloatWords(wire_type_, rows.num_floats()[r]));
  }
  return Status::Ok();
}

inline Status Rank::Serve(const std::vector<std::vector<Word>>& blocks, Executor* executor,
                          std::vector<std::vector<Word>>* replies) {
  received_ = blocks;
  std::vector<Block> received;
  for (const auto& block : received_) {
    received.push_back({block.data(), static_cast<int64_t>(block.size())});
  }
  KERAS_SPARSE_RETURN_IF_ERROR(GatheredRows::Create(layout_, received, &served_));
  std::vector<EmbeddingTable*> tables;
  std::vector<const int64_t*> ids;
  served_ids_.assign(tables_.size(), {});
  served_splits_.assign(tables_.size(), {});
  for (size_t p = 0; p < tables_.size(); ++p) {
    served_ids_[p].resize(static_cast<size_t>(served_->num_ids(p)));
    served_splits_[p].resize(static_cast<size_t>(served_->num_rows(p)) + 1);
    served_->WriteIds(p, served_ids_[p].data(), served_splits_[p].data());
    EXPECT_EQ(served_splits_[p].back(), served_->num_ids(p));
    tables.push_back(tables_[p].get());
    ids.push_back(served_ids_[p].data());
  }
  for (size_t r = 0; r < layout_.num_ranks; ++r) {
    replies->emplace_back(static_cast<size_t>(served_->num_words(r, wire_type_)), -1);
  }
  std::vector<int64_t> versions(tables.size(), -1);
  std::vector<uint32_t> num_updates(tables.size(), 99);
  const Status status = LookupRowsToHost(
      served_->Lookups(tables, ids, Pointers(replies), wire_type_, &versions, &num_updates),
      executor);
  for (size_t p = 0; p < tables.size(); ++p) {
    EXPECT_EQ(versions[p], VersionOf(*tables[p]));
    EXPECT_EQ(num_updates[p], 0u);
  }
  return status;
}

inline std::vector<CombinedInput> Rank::combined() const {
  std::vector<CombinedInput> inputs;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    CombinedInput input{inputs_[i].table, positions_[i].data(), inputs_[i].request().bags};
    if (!scales_[i].empty()) input.bags.scales = scales_[i].data();
    input.bags.num_ids = static_cast<int64_t>(positions_[i].size());
    if (!splits_[i].empty()) input.bags.row_splits = splits_[i].data();
    if (input.bags.combiner == Combiner::kNone) input.bags.num_bags = input.bags.num_ids;
    inputs.push_back(input);
  }
  return inputs;
}

inline std::vector<std::vector<float>> Rank::Combine(std::vector<std::vector<Word>> replies,
                                                     Executor* executor) {
  const ResponseRows rows(layout_, reply_rows_.data());
  for (size_t r = 0; r < replies.size(); ++r) {
    EXPECT_EQ(static_cast<int64_t>(replies[r].size()), rows.ReplyWords(wire_type_)[r]);
  }
  const auto columns = rows.ReplyColumns(VoidPointers(&replies), wire_type_);
  const std::vector<CombinedInput> inputs = combined();
  EXPECT_TRUE(IsOk(CheckInputs(layout_, rows, inputs)));
  std::vector<std::vector<float>> outputs;
  std::vector<OutputRows> rows_of_outputs;
  for (const CombinedInput& input : inputs) {
    outputs.emplace_back(static_cast<size_t>(input.bags.num_bags * layout_.tables[input.table].dim),
                         -99.0f);
    rows_of_outputs.emplace_back(outputs.back().data());
  }
  CombineRows(layout_, columns, inputs, rows_of_outputs, executor);
  ExpectCombinedAmongOthers(columns, outputs, executor);
  return outputs;
}

// Outputs have the same floats, rounded, where there are others between their rows.
inline void Rank::ExpectCombinedAmongOthers(
    const std::vector<std::vector<ResponseColumns>>& columns,
    const std::vector<std::vector<float>>& outputs, Executor* executor) {
  const std::vector<CombinedInput> inputs = combined();
  for (const FloatType type : kFloatTypes) {
    std::vector<std::vector<char>> expected;
    std::vector<std::vector<char>> wider;
    std::vector<OutputRows> rows;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const int64_t dim = layout_.tables[inputs[i].table].dim;
      expected.push_back(Placed(type, outputs[i], dim, 0, dim + 3));
      wider.emplace_back(expected.back().size(), kUnused);
      rows.emplace_back(wider.back().data(), dim + 3, type);
    }
    CombineRows(layout_, columns, inputs, rows, executor);
    EXPECT_EQ(wider, expected);
  }
}

inline std::vector<std::vector<float>> Rank::Return(
    const std::vector<std::vector<float>>& output_grads, float scale, Executor* executor) {
  const ResponseRows rows(layout_, reply_rows_.data());
  const std::vector<CombinedInput> inputs = combined();
  const auto returned = [&](const std::vector<GradientRows>& grads) {
    std::vector<std::vector<float>> blocks;
    for (size_t r = 0; r < layout_.num_ranks; ++r) {
      blocks.emplace_back(static_cast<size_t>(rows.num_floats()[r]), -99.0f);
    }
    const auto columns = rows.GradientColumns(VoidPointers(&blocks), FloatType::kFloat32);
    ReturnGradients(layout_, rows, inputs, grads, scale, columns, executor);
    return blocks;
  };
  std::vector<std::vector<float>> of_floats;
  for (const FloatType type : {FloatType::kBFloat16, FloatType::kFloat16, FloatType::kFloat32}) {
    std::vector<std::vector<float>> alone;
    std::vector<std::vector<char>> wider;
    std::vector<GradientRows> alone_rows;
    std::vector<GradientRows> wider_rows;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const int64_t dim = layout_.tables[inputs[i].table].dim;
      alone.push_back(Rounded(type, output_grads[i]));
      wider.push_back(Placed(type, output_grads[i], dim, 0, dim + 3));
      alone_rows.emplace_back(alone.back().data());
      wider_rows.emplace_back(wider.back().data(), dim + 3, type);
    }
    of_floats = returned(alone_rows);
    EXPECT_EQ(returned(wider_rows), of_floats);
  }
  return of_floats;
}

inline std::vector<std::vector<float>> Rank::Gather(const std::vector<std::vector<float>>& grads,
                                                    Executor* executor) {
  std::vector<int64_t> served_rows;
  std::vector<std::vector<float>> gathered;
  for (size_t p = 0; p < tables_.size(); ++p) {
    for (size_t r = 0; r < layout_.num_ranks; ++r) {
      served_rows.push_back(served_->num_rows(p, r));
    }
    gathered.emplace_back(static_cast<size_t>(served_->num_rows(p) * tables_[p]->dim()));
  }
  std::vector<const float*> floats;
  for (const auto& each : grads) floats.push_back(each.data());
  GatherGradients(layout_, floats, served_rows.data(), Pointers(&gathered), executor);
  return gathered;
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_EXCHANGE_EXCHANGE_TESTING_H_
