#include "ops/core/operations/update_rows.h"

#include "tests/ops/core/device/table_twins.h"
#include "tests/ops/core/support/all_rule_cases.h"

namespace keras_sparse::update_rows_test {

using cuda_impl::UpdateRequest;

constexpr int64_t kRows = 24;

// Each row of a table once and more.
std::vector<int64_t> EveryRow(int64_t n, uint64_t seed) {
  std::vector<int64_t> ids = RandomIds(n - kRows, 0, kRows - 1, seed);
  for (int64_t row = 0; row < kRows; ++row) ids.insert(ids.begin() + (row * 7) % (row + 1), row);
  return ids;
}

TEST(UpdateRows, GivesTheBitsOfTheCpuForEveryRule) {
  InAnyOrder([&] {
    const auto device = OpenDevice();
    for (const int64_t dim : {12, 33, 5}) {
      // Tables of all rules in one op, of float32 and packed ones.
      std::vector<RuleCase> cases = AllRuleCases();
      const size_t num_rules = cases.size();
      for (size_t i = 0; i < num_rules; ++i) cases.push_back(cases[i]);
      std::vector<std::unique_ptr<TableTwins>> all;
      for (size_t i = 0; i < cases.size(); ++i) {
        const size_t pair = (i + static_cast<size_t>(dim)) % std::size(kPackedTypes);
        const RecordTypes types = i < num_rules ? RecordTypes() : kPackedTypes[pair];
        all.push_back(std::make_unique<TableTwins>(device.get(), Packed(Options(kRows, dim), types),
                                                   cases[i].options));
      }
      for (int64_t step = 1; step <= 3; ++step) {
        std::vector<UpdateRequest> requests;
        std::vector<std::vector<int64_t>> ids(all.size());
        for (size_t i = 0; i < all.size(); ++i) {
          const auto seed = static_cast<uint64_t>(step) + 10 * i;
          // Most rows, so that the others miss a step or two.
          ids[i] = RandomIds(40, 0, kRows - 1, seed);
          all[i]->Begin(ids[i], NoBags(ids[i]), RandomFloats(40 * dim, seed),
                        cases[i].Numbers({step, 0.1}));
          requests.push_back(all[i]->Request());
        }
        ASSERT_TRUE(IsOk(Update(requests, device.get())));
        for (size_t i = 0; i < all.size(); ++i) {
          SCOPED_TRACE(cases[i].name);
          all[i]->Finish();
        }
      }
    }
  });
}

// Lanes take one float or four, as far as each type's rows and slots are aligned.
TEST(UpdateRows, RoundsPackedRecordsOfAnyWidthAsTheCpuDoes) {
  std::vector<RuleCase> cases;
  for (const RuleCase& each : AllRuleCases()) {
    const std::string& name = each.name;
    if (name == "sgd" || name == "row_wise_adagrad" || name == "adam" || name == "amsgrad") {
      cases.push_back(each);
    }
  }
  InAnyOrder([&] {
    const auto device = OpenDevice();
    for (const int64_t dim : {1, 4, 8, 12, 64, 65}) {
      for (const RuleCase& each : cases) {
        SCOPED_TRACE(each.name + ", dim " + std::to_string(dim));
        std::vector<std::unique_ptr<TableTwins>> all;
        for (const RecordTypes& types : kPackedTypes) {
          for (const bool randomly : {true, false}) {
            TableOptions options = Packed(Options(kRows, dim), types, randomly);
            options.initializer.first_column = randomly ? 37 : 0;  // of a part of a table
            options.initializer.key_stride = 3;
            options.initializer.key_offset = 2;
            all.push_back(std::make_unique<TableTwins>(device.get(), options, each.options));
          }
        }
        for (int64_t step = 1; step <= 3; ++step) {
          const auto seed = static_cast<uint64_t>(step);
          const std::vector<int64_t> ids = RandomIds(30, 0, kRows - 1, seed);
          const std::vector<float> grads = RandomFloats(30 * dim, seed);
          std::vector<UpdateRequest> requests;
          for (const auto& twins : all) {
            twins->Begin(ids, NoBags(ids), grads, each.Numbers({step, 0.1}));
            requests.push_back(twins->Request());
          }
          ASSERT_TRUE(IsOk(Update(requests, device.get())));
          for (const auto& twins : all) twins->Finish();
        }
      }
    }
  });
}

// Tiles of any width hold a row, some of its columns after the others, or too few of them.
TEST(UpdateRows, SumsSquaresOfRowsOfAnyWidthAsTheCpuDoes) {
  const std::vector<RuleCase> cases = AllRuleCases();
  const auto rule = std::find_if(cases.begin(), cases.end(), [](const RuleCase& each) {
    return each.name == "row_wise_adagrad";
  });
  InAnyOrder([&] {
    const auto device = OpenDevice();
    for (const int64_t dim : {1, 3, 8, 20, 31, 32, 33, 64, 100, 128, 200, 512, 516, 1000}) {
      SCOPED_TRACE("dim " + std::to_string(dim));
      const std::vector<int64_t> ids = RandomIds(30, 0, kRows - 1, 1);
      std::vector<std::unique_ptr<TableTwins>> all;
      std::vector<UpdateRequest> requests;
      for (const RecordTypes& types : {RecordTypes(), kPackedTypes[0]}) {
        for (const int64_t gap : {0, 1}) {  // lanes take four floats, or one
          all.push_back(std::make_unique<TableTwins>(
              device.get(), Packed(Options(kRows, dim), types), rule->options));
          all.back()->Begin(ids, NoBags(ids), GradientsWithZeros(30 * dim), rule->Numbers({1, 0.1}),
                            FloatType::kFloat32, gap);
          requests.push_back(all.back()->Request());
        }
      }
      ASSERT_TRUE(IsOk(Update(requests, device.get())));
      for (const auto& each : all) each->Finish();
    }
  });
}

TEST(UpdateRows, AddsGradientsOfBagsAndTypesAndPlaces) {
  const std::vector<int64_t> splits = RandomSplits(50, 6, 3);
  const std::vector<int64_t> ids = RandomIds(splits.back(), 0, kRows - 1, 4);
  const std::vector<float> weights = RandomFloats(splits.back(), 5);
  InAnyOrder([&] {
    const auto device = OpenDevice();
    for (const int64_t dim : {1, 4, 6, 40, 64, 132}) {
      std::vector<std::unique_ptr<TableTwins>> all;
      std::vector<UpdateRequest> requests;
      for (const FloatType type : kFloatTypes) {
        for (const Combiner combiner : {Combiner::kSum, Combiner::kMean, Combiner::kSqrtN}) {
          for (const int64_t gap : {0, 3, 8}) {
            all.push_back(
                std::make_unique<TableTwins>(device.get(), Options(kRows, dim), AdagradRule(0.1)));
            const Bags bags =
                gap == 3 ? BagsOf(combiner, splits) : BagsOf(combiner, splits, weights);
            all.back()->Begin(ids, bags, RandomFloats(50 * dim, 6), {0.1f}, type, gap);
            requests.push_back(all.back()->Request());
          }
        }
      }
      ASSERT_TRUE(IsOk(Update(requests, device.get())));
      for (const auto& each : all) each->Finish();
    }
  });
}

// Of several tables, so that segments begin anywhere.
TEST(UpdateRows, SumsRunsOfFrequentRowsAsTheCpuDoes) {
  const std::vector<int64_t> ids = FrequentIds();
  const auto n = static_cast<int64_t>(ids.size());
  const std::vector<int64_t> splits = {0, n / 2, n / 2, n};
  const std::vector<float> weights = RandomFloats(n, 3);
  InAnyOrder([&] {
    const auto device = OpenDevice();
    for (const int64_t dim : {3, 4}) {
      std::vector<std::unique_ptr<TableTwins>> all;
      std::vector<UpdateRequest> requests;
      for (const FloatType type : kFloatTypes) {
        for (const bool pools : {false, true}) {
          all.push_back(std::make_unique<TableTwins>(device.get(), Options(kRows, dim), SgdRule()));
          const Bags bags = pools ? BagsOf(Combiner::kMean, splits, weights) : NoBags(ids);
          all.back()->Begin(ids, bags, GradientsWithZeros(bags.num_bags * dim), {0.1f}, type);
          requests.push_back(all.back()->Request());
        }
      }
      ASSERT_TRUE(IsOk(Update(requests, device.get())));
      for (const auto& each : all) each->Finish();
    }
  });
}

// Numbers of 32 bits do not do for the rows of all of them together.
TEST(UpdateRows, TakesMoreRowsThanItHasNumbersForAtOnce) {
  const std::vector<int64_t> ids = EveryRow(60, 1);
  const auto device = OpenDevice();
  std::vector<std::unique_ptr<TableTwins>> all;
  std::vector<UpdateRequest> requests;
  for (uint64_t i = 0; i < 5; ++i) {
    all.push_back(std::make_unique<TableTwins>(device.get(), Options(kRows, 4), AdagradRule(0.1)));
    all.back()->Begin(ids, NoBags(ids), RandomFloats(240, i));
    requests.push_back(all.back()->Request());
    // Rows that no id names, and so no kernel touches.
    requests.back().table.records.num_rows = (int64_t{1} << 32) - 2 - static_cast<int64_t>(i);
  }
  ASSERT_TRUE(IsOk(Update(requests, device.get())));
  for (const auto& each : all) each->Finish();
}

TEST(UpdateRows, TakesNothingAtAll) {
  const auto device = OpenDevice();
  ASSERT_TRUE(IsOk(Update({}, device.get())));
  TableTwins no_ids(device.get(), Options(kRows, 4), SgdRule());
  TableTwins no_rows(device.get(), Options(0, 4), SgdRule());
  no_ids.Begin({}, NoBags({}), {});
  const std::vector<int64_t> splits = {0, 0};
  no_rows.Begin({}, BagsOf(Combiner::kSum, splits), {1, 2, 3, 4});
  ASSERT_TRUE(IsOk(Update({no_ids.Request(), no_rows.Request()}, device.get())));
  no_ids.Finish();
  no_rows.Finish();
}

TEST(UpdateRows, LeavesOutIdsThatReadAsZeros) {
  TableOptions options = Options(kRows, 8);
  options.out_of_range_is_zero = true;
  std::vector<int64_t> ids = ExtremeKeys();
  ids.insert(ids.end(), {kRows, kRows - 1, -1, 0});
  ids.insert(ids.end(), 600, kRows + 5);  // enough to sum them by runs
  InAnyOrder([&] {
    const auto device = OpenDevice();
    TableTwins twins(device.get(), options, AdagradRule(0.1));
    twins.Begin(ids, NoBags(ids), RandomFloats(static_cast<int64_t>(ids.size()) * 8, 1));
    ASSERT_TRUE(IsOk(Update({twins.Request()}, device.get())));
    twins.Finish();
    EXPECT_FALSE(twins.on_device().Checks().refuses());
  });
}

TEST(UpdateRows, ChangesNothingIfAnyTableRefusesAnId) {
  InAnyOrder([&] {
    const auto device = OpenDevice();
    TableTwins good(device.get(), Options(kRows, 8), AdagradRule(0.1));
    TableTwins bad(device.get(), Options(kRows, 4), SgdRule());
    const std::string good_before = good.on_device().Records();
    const std::string bad_before = bad.on_device().Records();
    std::vector<int64_t> ids = EveryRow(100, 1);
    good.Begin(ids, NoBags(ids), RandomFloats(800, 2));
    const UpdateRequest good_request = good.Request();
    ids[70] = kRows;
    bad.Begin(ids, NoBags(ids), RandomFloats(400, 3));
    EXPECT_FALSE(good.any_refused());
    ASSERT_TRUE(bad.any_refused());
    ASSERT_TRUE(IsOk(Update({good_request, bad.Request()}, device.get(), 1)));
    EXPECT_EQ(good.on_device().Records(), good_before);
    EXPECT_EQ(bad.on_device().Records(), bad_before);
  });
}

TEST(UpdateRows, RefusesARuleWithoutAKernel) {
  const auto device = OpenDevice();
  TableTwins twins(device.get(), Options(kRows, 4), SgdRule());
  twins.Begin({}, NoBags({}), {});
  UpdateRequest request = twins.Request();
  const auto none = UpdateRule::None(4);
  request.rule = none.get();
  EXPECT_TRUE(FailsWith(StatusCode::kUnimplemented, "Received: rule='none'",
                        Update({request}, device.get())));
}

}  // namespace keras_sparse::update_rows_test
