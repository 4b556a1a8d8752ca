
#include "tests/ops/core/exchange/draw_exchange.h"
#include "tests/ops/core/support/thread_executor.h"

namespace keras_sparse::exchange_test {

using Blocks = std::vector<std::vector<Word>>;
using Floats = std::vector<std::vector<float>>;

// What each rank gets of what all have made: an alltoall.
template <typename T>
std::vector<std::vector<std::vector<T>>> Exchange(
    const std::vector<std::vector<std::vector<T>>>& sent) {
  std::vector<std::vector<std::vector<T>>> received(sent.size());
  for (const auto& blocks : sent) {
    for (size_t to = 0; to < blocks.size(); ++to) received[to].push_back(blocks[to]);
  }
  return received;
}

// A model on some ranks, and what comes out of a step of it.
struct Step {
  std::vector<std::unique_ptr<Rank>> ranks;
  std::vector<Floats> outputs;    // of each rank's inputs
  std::vector<Floats> gradients;  // of each rank's parts

  Step(const std::vector<PlacedTable>& tables, const std::vector<std::vector<Ids>>& inputs,
       const std::vector<Floats>& output_grads, float scale, FloatType wire_type,
       Executor* executor) {
    const auto num_ranks = static_cast<int64_t>(inputs.size());
    std::vector<Blocks> requests(inputs.size());
    for (int64_t r = 0; r < num_ranks; ++r) {
      const auto at = static_cast<size_t>(r);
      ranks.push_back(std::make_unique<Rank>(tables, num_ranks, r, wire_type));
      EXPECT_TRUE(IsOk(ranks[at]->Request(inputs[at], executor, &requests[at])));
    }
    requests = Exchange(requests);
    std::vector<Blocks> replies(inputs.size());
    for (size_t r = 0; r < inputs.size(); ++r) {
      EXPECT_TRUE(IsOk(ranks[r]->Serve(requests[r], executor, &replies[r])));
    }
    replies = Exchange(replies);
    std::vector<Floats> returned;
    for (size_t r = 0; r < inputs.size(); ++r) {
      outputs.push_back(ranks[r]->Combine(replies[r], executor));
      returned.push_back(ranks[r]->Return(output_grads[r], scale, executor));
    }
    returned = Exchange(returned);
    for (size_t r = 0; r < inputs.size(); ++r) {
      gradients.push_back(ranks[r]->Gather(returned[r], executor));
    }
  }
};

using Gradient = std::map<std::pair<size_t, int64_t>, std::vector<double>>;  // by table and key

std::vector<double>& RowOf(Gradient* gradient, size_t table, int64_t key, int64_t dim) {
  std::vector<double>& row = (*gradient)[{table, key}];
  row.resize(static_cast<size_t>(dim));
  return row;
}

Gradient Expected(const std::vector<PlacedTable>& tables,
                  const std::vector<std::vector<Ids>>& inputs,
                  const std::vector<Floats>& output_grads, double scale) {
  Gradient gradient;
  for (size_t r = 0; r < inputs.size(); ++r) {
    for (size_t i = 0; i < inputs[r].size(); ++i) {
      const Ids& ids = inputs[r][i];
      const int64_t dim = tables[ids.table].dim;
      for (const auto& [key, row] :
           ReferenceMerge(ids.ids, ids.request().bags, output_grads[r][i], dim)) {
        std::vector<double>& sum = RowOf(&gradient, ids.table, key, dim);
        for (size_t c = 0; c < row.size(); ++c) sum[c] += scale * row[c];
      }
    }
  }
  return gradient;
}

Gradient Gathered(const std::vector<PlacedTable>& tables, const Step& step) {
  Gradient gradient;
  const auto num_ranks = static_cast<int64_t>(step.ranks.size());
  for (size_t r = 0; r < step.ranks.size(); ++r) {
    const ExchangeLayout& layout = step.ranks[r]->layout();
    for (size_t p = 0; p < layout.own_parts().size(); ++p) {
      const size_t t = layout.own_parts()[p].table;
      const ExchangedSlice& slice = layout.slice(layout.own_parts()[p]);
      const bool is_local = tables[t].by_rows && tables[t].input_dim >= 0;
      const std::vector<int64_t>& splits = step.ranks[r]->served_splits(p);
      for (size_t row = 0; row + 1 < splits.size(); ++row) {
        for (int64_t i = splits[row]; i < splits[row + 1]; ++i) {
          const int64_t id = step.ranks[r]->served_ids(p)[static_cast<size_t>(i)];
          const int64_t key = is_local ? id * num_ranks + slice.rank : id;
          std::vector<double>& sum = RowOf(&gradient, t, key, tables[t].dim);
          for (int64_t c = 0; c < slice.num_columns; ++c) {
            sum[static_cast<size_t>(slice.first_column + c)] +=
                step.gradients[r][p][row * static_cast<size_t>(slice.num_columns) +
                                     static_cast<size_t>(c)];
          }
        }
      }
    }
  }
  return gradient;
}

// A rank that has rows of a key hears of as many occurrences on each rank as there are, or of
// enough: the table's max_entries.
void ExpectOccurrences(const std::vector<PlacedTable>& tables,
                       const std::vector<std::vector<Ids>>& inputs, const Step& step) {
  std::map<std::pair<size_t, int64_t>, int64_t> most;
  std::map<std::pair<size_t, int64_t>, int64_t> least;
  for (const std::vector<Ids>& of_rank : inputs) {
    std::map<std::pair<size_t, int64_t>, int64_t> occurrences;
    for (const Ids& ids : of_rank) {
      for (const int64_t key : ids.ids) ++occurrences[{ids.table, key}];
    }
    for (const auto& [key, n] : occurrences) {
      most[key] += n;
      least[key] += std::min(n, tables[key.first].max_entries);
    }
  }
  const auto num_ranks = static_cast<int64_t>(step.ranks.size());
  for (const auto& rank : step.ranks) {
    const ExchangeLayout& layout = rank->layout();
    std::map<std::pair<size_t, int64_t>, int64_t> heard;
    std::vector<bool> has_all_keys(tables.size(), false);
    for (size_t p = 0; p < layout.own_parts().size(); ++p) {
      const size_t t = layout.own_parts()[p].table;
      const ExchangedSlice& slice = layout.slice(layout.own_parts()[p]);
      const bool is_local = tables[t].by_rows && tables[t].input_dim >= 0;
      has_all_keys[t] = !tables[t].by_rows;
      for (const int64_t id : rank->served_ids(p)) {
        ++heard[{t, is_local ? id * num_ranks + slice.rank : id}];
      }
    }
    for (const auto& [key, n] : most) {
      if (has_all_keys[key.first]) {
        EXPECT_GE(heard[key], least[key]);
      }
    }
    for (const auto& [key, n] : heard) {
      if (n == 0) continue;
      EXPECT_GE(n, least[key]);
      EXPECT_LE(n, most[key]);
    }
  }
}

std::vector<float> ElementRow(int64_t key, int64_t dim) {
  std::vector<float> row;
  for (int64_t c = 0; c < dim; ++c) row.push_back(Element(key, c));
  return row;
}

void ExpectLikeOneRank(const std::vector<PlacedTable>& tables,
                       const std::vector<std::vector<Ids>>& inputs, uint64_t seed,
                       FloatType wire_type, Executor* executor) {
  std::vector<Floats> output_grads(inputs.size());
  for (size_t r = 0; r < inputs.size(); ++r) {
    for (const Ids& ids : inputs[r]) {
      const int64_t floats = ids.request().bags.num_bags * tables[ids.table].dim;
      output_grads[r].push_back(RandomFloats(floats, ++seed));
    }
  }
  const Step step(tables, inputs, output_grads, 0.25f, wire_type, executor);
  for (size_t r = 0; r < inputs.size(); ++r) {
    for (size_t i = 0; i < inputs[r].size(); ++i) {
      const Ids& ids = inputs[r][i];
      const int64_t dim = tables[ids.table].dim;
      const auto row_of = [&](int64_t key) { return ElementRow(key, dim); };
      std::vector<double> expected;
      if (ids.combiner == Combiner::kNone) {
        for (const int64_t key : ids.ids) {
          for (const float element : row_of(key)) expected.push_back(element);
        }
      } else {
        expected = ReferencePool(row_of, ids.ids, ids.request().bags, dim);
      }
      SCOPED_TRACE("rank " + std::to_string(r) + " input " + std::to_string(i));
      ExpectNear(step.outputs[r][i], expected, 2e-5);
    }
  }
  ExpectOccurrences(tables, inputs, step);
  const Gradient expected = Expected(tables, inputs, output_grads, 0.25);
  const Gradient gathered = Gathered(tables, step);
  ASSERT_EQ(gathered.size(), expected.size());
  for (const auto& [key, row] : expected) {
    ASSERT_TRUE(gathered.count(key));
    ExpectNear({gathered.at(key).begin(), gathered.at(key).end()}, row, 2e-5);
  }
}

TEST(Exchange, IsALookupOnAnyRanksAndPlacements) {
  ThreadExecutor threads(3);
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Draw draw(seed);
    const int64_t num_ranks = 1 + draw.Below(4);
    const std::vector<PlacedTable> tables = draw.Tables(1 + seed % 4, num_ranks);
    const std::vector<std::vector<Ids>> inputs = draw.Inputs(tables, num_ranks, seed);
    // Sums of a few elements are below 2^11, and as exact in float16 as rows are in all types.
    const FloatType wire_type = seed % 3 == 0 ? FloatType::kFloat16 : FloatType::kFloat32;
    ExpectLikeOneRank(tables, inputs, seed, wire_type, seed % 2 == 0 ? &threads : Inline());
    if (HasFatalFailure()) return;
  }
}

TEST(Exchange, AsksForEachIdOnce) {
  const std::vector<PlacedTable> tables = {{100, 4, {1}, {4}}};
  const Ids ids{0, {7, 7, 3, 7, 3}, Combiner::kNone, {}, {}};
  Rank rank(tables, 2, 0);
  Blocks blocks;
  ASSERT_TRUE(IsOk(rank.Request({ids, ids}, Inline(), &blocks)));
  EXPECT_EQ(blocks[0].size(), 8u);
  const std::vector<Word> sent(blocks[1].begin() + kHeaderWords, blocks[1].end());
  EXPECT_EQ(sent, (std::vector<Word>{2, 2, 0, 0, 7, 0, 3, 0}));
  EXPECT_EQ(rank.reply_rows(), (std::vector<int64_t>{0, 2, 0, 2}));
}

// The words that rank 1 sends rank 0 for an input of a table of 3 columns on rank 1.
std::vector<Word> Reply(FloatType row_type, FloatType wire_type, const Ids& ids) {
  const std::vector<PlacedTable> tables = {{100, 3, {1}, {3}, false, false, 1, row_type}};
  Rank asking(tables, 2, 0, wire_type);
  Rank serving(tables, 2, 1, wire_type);
  std::vector<Blocks> requests(2);
  EXPECT_TRUE(IsOk(asking.Request({ids}, Inline(), &requests[0])));
  EXPECT_TRUE(IsOk(serving.Request({{0, {}, Combiner::kNone, {}, {}}}, Inline(), &requests[1])));
  Blocks replies;
  EXPECT_TRUE(IsOk(serving.Serve(Exchange(requests)[1], Inline(), &replies)));
  return replies[0];
}

TEST(Exchange, SendsRowsOf16BitsAsTheyAreStored) {
  const Ids one = {0, {5}, Combiner::kNone, {}, {}};
  std::vector<float> row = ElementRow(5, 3);
  for (const FloatType row_type : {FloatType::kBFloat16, FloatType::kFloat16}) {
    std::vector<Word> expected(2, -1);
    WriteFloats(row_type, row.data(), 3, expected.data());
    for (const FloatType wire_type : kFloatTypes) {
      EXPECT_EQ(Reply(row_type, wire_type, one), expected);
    }
  }
  EXPECT_EQ(Reply(FloatType::kFloat32, FloatType::kFloat16, one).size(), 2u);
  EXPECT_EQ(Reply(FloatType::kFloat32, FloatType::kFloat32, one).size(), 3u);
}

TEST(Exchange, SendsSumsOfRowsOf16BitsInTheTypeOfTheWire) {
  const Ids bag = {0, {5, 6, 8, 9, 10}, Combiner::kSum, {0, 5}, {}};
  std::vector<float> sum(3, 0.0f);
  for (const int64_t id : bag.ids) {
    const std::vector<float> row = ElementRow(id, 3);
    for (size_t c = 0; c < 3; ++c) sum[c] += row[c];
  }
  for (const FloatType wire_type : kFloatTypes) {
    std::vector<Word> expected(wire_type == FloatType::kFloat32 ? 3 : 2, -1);
    WriteFloats(wire_type, sum.data(), 3, expected.data());
    EXPECT_EQ(Reply(FloatType::kBFloat16, wire_type, bag), expected);
  }
}

TEST(Exchange, AsksForSumsOfBagsWhereThatIsLess) {
  const std::vector<PlacedTable> tables = {{100, 4, {1}, {4}}};
  const auto words_for = [&](const std::vector<int64_t>& ids, const std::vector<int64_t>& splits) {
    Rank rank(tables, 2, 0);
    Blocks blocks;
    EXPECT_TRUE(IsOk(rank.Request({{0, ids, Combiner::kMean, splits, {}}}, Inline(), &blocks)));
    return std::vector<Word>(blocks[1].begin() + kHeaderWords, blocks[1].end());
  };
  // One vector there and back is less than three rows, by more than the bag takes to describe.
  EXPECT_EQ(words_for({5, 6, 8}, {0, 3, 3}),
            (std::vector<Word>{3, 0, 1, 3, 5, 0, 6, 0, 8, 0, 3, 0, 1, 2}));
  // Two rows of three bags are not.
  EXPECT_EQ(words_for({5, 6, 5, 6}, {0, 2, 3, 4}), (std::vector<Word>{2, 2, 0, 0, 5, 0, 6, 0}));
}

TEST(Exchange, AnErrorOfOneRankReachesAll) {
  const std::vector<PlacedTable> tables = {{10, 4, {1}, {4}}};
  Rank rank(tables, 2, 1);
  Blocks blocks;
  const Status status = rank.Request({{0, {3, 10}, Combiner::kNone, {}, {}}}, Inline(), &blocks);
  ASSERT_TRUE(FailsWith(StatusCode::kInvalidArgument, "ids[1] = 10", status));
  std::vector<Word> error(static_cast<size_t>(StatusWords(status)));
  WriteStatus(status, rank.layout().checksum, error.data());
  std::vector<Word> fine(kHeaderWords);
  WriteStatus(Status::Ok(), rank.layout().checksum, fine.data());
  Blocks replies;
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "[rank 1 of 2] id must be in [0, 10)",
                        Rank(tables, 2, 0).Serve({fine, error}, Inline(), &replies)));
}

TEST(Exchange, TellsExchangesOfEqualTablesApart) {
  const std::vector<PlacedTable> tables = {{10, 4, {1}, {4}}};
  const uint32_t checksum = Layout(tables, 2, 0).checksum;
  EXPECT_EQ(Layout(tables, 2, 1).checksum, checksum);
  EXPECT_NE(Layout(tables, 2, 1, "another").checksum, checksum);
  EXPECT_NE(Layout(tables, 2, 1, "exchange", "another").checksum, checksum);
  const PlacedTable packed = {10, 4, {1}, {4}, false, false, 1, FloatType::kBFloat16};
  EXPECT_NE(Layout({packed}, 2, 1).checksum, checksum);
}

TEST(Exchange, RefusesAnotherRanksLayoutAndMalformedBlocks) {
  const std::vector<PlacedTable> tables = {{10, 4, {0}, {4}}};
  Rank rank(tables, 2, 0);
  Blocks blocks;
  ASSERT_TRUE(IsOk(rank.Request({{0, {3, 4}, Combiner::kNone, {}, {}}}, Inline(), &blocks)));
  const std::vector<Word> good = blocks[0];
  Blocks replies;
  ASSERT_TRUE(IsOk(rank.Serve({good, good}, Inline(), &replies)));

  std::vector<Word> other = good;
  other[2] ^= 1;
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "[rank 1 of 2] every rank must make",
                        rank.Serve({good, other}, Inline(), &replies)));
  for (size_t cut = 0; cut < good.size(); ++cut) {
    const std::vector<Word> short_block(good.begin(), good.begin() + static_cast<int64_t>(cut));
    EXPECT_TRUE(FailsWith(StatusCode::kDataLoss, "must",
                          rank.Serve({good, short_block}, Inline(), &replies)));
  }
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {  // whatever comes, memory is not left
    std::vector<Word> broken = good;
    broken[kHeaderWords + random() % 4] = static_cast<Word>(random() % 8) - 2;
    replies.clear();
    (void)rank.Serve({good, broken}, Inline(), &replies);
  }
}

}  // namespace keras_sparse::exchange_test
