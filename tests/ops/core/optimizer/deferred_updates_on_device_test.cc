// Records in a GPU's memory that miss any number of steps.
#include <thread>

#include "ops/core/optimizer/catch_up.h"
#include "ops/core/optimizer/history_on_device.h"
#include "ops/core/optimizer/saved_rule.h"
#include "ops/core/record/hbm_records.h"
#include "tests/ops/core/device/device_testing.h"
#include "tests/ops/core/support/all_rule_cases.h"
#include "tests/ops/core/support/reference.h"
#include "tests/ops/core/support/table_testing.h"

namespace keras_sparse::deferred_updates_on_device_test {

using cuda_impl::CatchUpRecords;
using cuda_impl::HistoryOnDevice;
using cuda_impl::ReadMovedRows;

std::unique_ptr<UpdateRule> Create(RuleOptions options, int64_t dim,
                                   const RecordTypes& types = {}) {
  options.dim = dim;
  options.types = types;
  std::unique_ptr<UpdateRule> rule;
  EXPECT_TRUE(IsOk(UpdateRule::Create(options, &rule)));
  return rule;
}

// Floats as words; which NaN it is, a GPU and a processor do not agree on.
std::vector<uint32_t> Words(const float* floats, int64_t n) {
  std::vector<uint32_t> words(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(&words[static_cast<size_t>(i)], floats + i, sizeof(uint32_t));
    if (std::isnan(floats[i])) words[static_cast<size_t>(i)] = 0x7FC00000;
  }
  return words;
}

// Records of a rule on the CPU and on a GPU.
class Records {
 public:
  // Those of `ages`: how many steps each has missed. Their floats are of all kinds.
  Records(Device* device, const UpdateRule& rule, const std::vector<int64_t>& ages, uint64_t seed)
      : device_(device),
        layout_(rule.layout()),
        float_layout_(rule.float_layout()),
        num_rows_(static_cast<int64_t>(ages.size())) {
    const int64_t dim = layout_.dim();
    records_.resize(static_cast<size_t>(num_rows_ * layout_.record_words()));
    std::vector<float> floats = RandomFloats(num_rows_ * float_layout_.record_words(), seed);
    constexpr float kInf = std::numeric_limits<float>::infinity();
    constexpr float kOdd[] = {0,         -0.0f,  1e-38f,
                              -1.3e-38f, 1e-45f, 3e38f,
                              -kInf,     kInf,   std::numeric_limits<float>::quiet_NaN(),
                              1e-30f};
    for (int64_t i = 0; i < num_rows_; ++i) {
      float* record = floats.data() + i * float_layout_.record_words();
      // A velocity and what else comes behind the first slot is not below zero.
      for (int64_t j = 2 * dim; j < layout_.record_floats(); ++j) record[j] = std::abs(record[j]);
      if (rule.name().find("rmsprop") != std::string::npos) {
        for (int64_t j = dim; j < 2 * dim; ++j) record[j] = std::abs(record[j]);
      }
      if (i % 2 == 1) {
        for (int64_t j = dim + i % 3; j < layout_.record_floats(); j += 5) {
          record[j] = kOdd[static_cast<size_t>(i + j) % std::size(kOdd)];
        }
      }
      // Lion's momentum close to where it is no float any more.
      if (i % 5 == 2) {
        for (int64_t j = dim; j < std::min(2 * dim, layout_.record_floats()); ++j) {
          record[j] *= 1e-37f;
        }
      }
      float_layout_.SetLastStep(record, rule.step() - ages[static_cast<size_t>(i)]);
      PackRecord(layout_, record, Rounding(), i, Record(i));
    }
    EXPECT_TRUE(IsOk(HbmRecords::Allocate(device, num_rows_, layout_, &on_device_)));
    EXPECT_TRUE(IsOk(on_device_.Write(0, num_rows_, records_.data())));
  }

  void CheckReads(const UpdateRule& rule, HistoryOnDevice* history) {
    const int64_t dim = layout_.dim();
    std::vector<uint32_t> rows = {kNoHbmRow, static_cast<uint32_t>(num_rows_)};
    for (int64_t i = 0; i < num_rows_; ++i)
      rows.push_back(static_cast<uint32_t>(i * 7 % num_rows_));
    const auto n = static_cast<int64_t>(rows.size());
    const auto rows_on_device = OnDevice(device_, rows);
    const FloatType type = layout_.types().row;
    std::vector<float> read(static_cast<size_t>(n * dim), -5);
    auto moved = OnDevice(device_, Placed(type, read, dim, 0, dim));
    ASSERT_TRUE(IsOk(ReadMovedRows(rule, history, on_device_.view(), rows_on_device.data(), n,
                                   moved.data(), device_)));
    ReadFloats(type, Values(moved).data(), n * dim, read.data());
    std::vector<float> expected(static_cast<size_t>(2 * dim), -5);
    for (int64_t i = 2; i < n; ++i) {
      expected.resize(static_cast<size_t>((i + 1) * dim));
      const std::vector<float> floats = Unpacked(Record(rows[static_cast<size_t>(i)]));
      rule.Read(floats.data(), expected.data() + i * dim);
      RoundFloats(type, dim, expected.data() + i * dim);
    }
    ASSERT_EQ(Words(read.data(), n * dim), Words(expected.data(), n * dim));
    CheckRecords();  // are as they were
  }
  void CheckCatchesUp(const UpdateRule& rule, HistoryOnDevice* history) {
    // Some first, each of these by its number.
    const std::vector<uint32_t> rows = {kNoHbmRow, 2, 0};
    const auto rows_on_device = OnDevice(device_, rows);
    const Rounding rounding = {true, static_cast<uint64_t>(rule.step()), {{{7, 9}}, 5, 3, 2}};
    const auto catch_up = [&](int64_t i) {
      if (rule.IsCurrent(Record(i))) return;
      std::vector<float> floats = Unpacked(Record(i));
      rule.CatchUp(floats.data());
      PackRecord(layout_, floats.data(), rounding, i, Record(i));
    };
    ASSERT_TRUE(IsOk(CatchUpRecords(rule, history, on_device_.view(), rows_on_device.data(), 3,
                                    device_, {rounding})));
    for (const int64_t i : {2, 0}) catch_up(i);
    CheckRecords();
    ASSERT_TRUE(IsOk(
        CatchUpRecords(rule, history, on_device_.view(), nullptr, num_rows_, device_, {rounding})));
    for (int64_t i = 0; i < num_rows_; ++i) catch_up(i);
    CheckRecords();
  }
  void CheckRecords() const {
    std::vector<float> read(records_.size());
    ASSERT_TRUE(IsOk(on_device_.Read(0, num_rows_, read.data())));
    const int64_t words = layout_.record_words();
    for (int64_t i = 0; i < num_rows_; ++i) {
      const float* cpu = records_.data() + i * words;
      const float* gpu = read.data() + i * words;
      const int64_t floats = layout_.record_floats();
      ASSERT_EQ(Words(Unpacked(gpu).data(), floats), Words(Unpacked(cpu).data(), floats))
          << "record " << i;
      ASSERT_EQ(layout_.LastStep(gpu), layout_.LastStep(cpu)) << "record " << i;
    }
  }

 private:
  float* Record(int64_t i) { return records_.data() + i * layout_.record_words(); }
  std::vector<float> Unpacked(const float* record) const {
    std::vector<float> floats(static_cast<size_t>(float_layout_.record_words()));
    UnpackRecord(layout_, record, floats.data());
    return floats;
  }

  Device* device_;
  RecordLayout layout_;
  RecordLayout float_layout_;
  int64_t num_rows_;
  std::vector<float> records_;
  HbmRecords on_device_;
};

// Rates that stay, change, and change their sign.
double RateOf(int64_t step) {
  if (step % 1000 < 700) return InFloat(0.01);
  return InFloat(0.03 * std::cos(static_cast<double>(step) / 10));
}
void TakeSteps(const RuleCase& rule_case, int64_t n, UpdateRule* rule) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t number = rule->step() % 4000 + 1;
    rule->BeginStep(rule_case.Numbers({number, RateOf(number)}));
    rule->FinishStep();
  }
}

const std::vector<int64_t> kAges = {0,   1,   2,   3,   7,    30,   99,  100,
                                    101, 250, 400, 700, 1000, 1699, 1700};

class DeferredUpdatesOnDevice : public ::testing::TestWithParam<RuleCase> {};

TEST_P(DeferredUpdatesOnDevice, AreThoseOfTheCpu) {
  const auto device = OpenDevice();
  std::vector<std::pair<int64_t, RecordTypes>> tables;
  for (const int64_t dim : {1, 3, 4, 33, 128}) tables.emplace_back(dim, RecordTypes());
  // Odd widths, and those of which lanes take four floats of some types and one of others.
  size_t number = 0;
  for (const int64_t dim : {1, 3, 4, 8, 12, 33, 64}) {
    tables.emplace_back(dim, kPackedTypes[number++ % std::size(kPackedTypes)]);
  }
  for (const auto& [dim, types] : tables) {
    SCOPED_TRACE(NameOf(types) + ", dim " + std::to_string(dim));
    const auto rule = Create(GetParam().options, dim, types);
    TakeSteps(GetParam(), kAges.back(), rule.get());
    HistoryOnDevice history;
    Records records(device.get(), *rule, kAges, static_cast<uint64_t>(dim));
    records.CheckReads(*rule, &history);
    records.CheckCatchesUp(*rule, &history);
    records.CheckReads(*rule, &history);
  }
}

// A table of a checkpoint goes on with its steps, and lets them go once they are many.
TEST_P(DeferredUpdatesOnDevice, OutliveARestoreAndWhatIsForgotten) {
  const auto device = OpenDevice();
  // The step words of these records end on the way.
  const int64_t first_step = (int64_t{1} << 32) - 40;
  auto rule = Create(GetParam().options, 5);
  rule->StartAt(first_step);
  TakeSteps(GetParam(), 30, rule.get());
  const RuleHistory saved = rule->history();
  if (rule->defers_moves()) {
    ASSERT_TRUE(IsOk(SavedRule::Replay(rule->options(), saved, &rule)));
  }
  HistoryOnDevice history;
  const std::vector<int64_t> ages = {0, 1, 5, 20, 29, 30, 10, 3};
  Records records(device.get(), *rule, ages, 1);
  for (const int64_t more : {0, 1, 20, 300}) {
    TakeSteps(GetParam(), more, rule.get());
    records.CheckReads(*rule, &history);
  }
  for (const int64_t until_seen : {500, 0, 1}) {
    records.CheckCatchesUp(*rule, &history);
    rule->ForgetSteps();
    // The copy may hear of it only when there is as much to remember again.
    TakeSteps(GetParam(), until_seen, rule.get());
    records.CheckReads(*rule, &history);
    for (const int64_t more : {1, 50}) {
      TakeSteps(GetParam(), more, rule.get());
      records.CheckReads(*rule, &history);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, DeferredUpdatesOnDevice, ::testing::ValuesIn(AllRuleCases()),
                         [](const auto& rule_case) { return rule_case.param.name; });

TEST(HistoryOnDevice, MayBeSentAgainWhereTheGpuHadNoRoom) {
#ifdef __CUDACC__
  GTEST_SKIP() << "the memory of a GPU is what it is";
#else
  const RuleCase lion = LionCase("lion", 0.9, 0.99);
  const auto rule = Create(lion.options, 4);
  TakeSteps(lion, 1000, rule.get());
  const auto device = OpenDevice();
  Records records(device.get(), *rule, {0, 10, 999}, 1);
  const size_t before = emulated::options().memory;
  HistoryOnDevice history;
  emulated::options().memory = 16000;
  HistoryView view;
  const Status status = history.Follow(*rule, device.get(), &view);
  emulated::options().memory = before;
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "bytes more", status));
  records.CheckReads(*rule, &history);
  records.CheckCatchesUp(*rule, &history);
#endif
}

// As lookups do, none of which changes the rule.
TEST(HistoryOnDevice, IsSentOnceToThreadsThatAskAtOnce) {
  const RuleCase adam = AdamCase("adam", "adam");
  const auto rule = Create(adam.options, 4);
  const auto device = OpenDevice();
  HistoryOnDevice history;
  for (int64_t step = 1; step <= 5; ++step) {
    TakeSteps(adam, 40, rule.get());
    std::vector<HistoryView> views(4);
    std::vector<std::thread> threads;
    for (HistoryView& view : views) {
      threads.emplace_back([&] { EXPECT_TRUE(IsOk(history.Follow(*rule, device.get(), &view))); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const HistoryView& view : views) {
      EXPECT_EQ(view.step, rule->step());
      EXPECT_EQ(view.moves.live, views[0].moves.live);
    }
    Records records(device.get(), *rule, {0, 1, 30}, 1);
    records.CheckReads(*rule, &history);
  }
}

TEST(CatchUp, GivesTheSameInAnyOrder) {
  const std::vector<int64_t> ages = {0, 1, 7, 30, 100, 130};
  for (RuleCase each : {AdamCase("adam", "adam"), LionCase("lion", 0.9, 0.99)}) {
    each.options.weight_decay = 0.05;
    for (const int64_t dim : {5, 40}) {
      const auto rule = Create(each.options, dim);
      TakeSteps(each, ages.back(), rule.get());
      InAnyOrder([&] {
        const auto device = OpenDevice();
        HistoryOnDevice history;
        Records records(device.get(), *rule, ages, 1);
        records.CheckReads(*rule, &history);
        records.CheckCatchesUp(*rule, &history);
      });
    }
  }
}

TEST(CatchUp, RefusesARuleWithoutAKernel) {
  const auto device = OpenDevice();
  const auto none = UpdateRule::None(4);
  HistoryOnDevice history;
  EXPECT_TRUE(FailsWith(StatusCode::kUnimplemented, "Received: rule='none'",
                        ReadMovedRows(*none, &history, {}, nullptr, 0, nullptr, device.get())));
  EXPECT_TRUE(
      IsOk(CatchUpRecords(*none, &history, {}, nullptr, 0, device.get())));  // has none to make
}

}  // namespace keras_sparse::deferred_updates_on_device_test
