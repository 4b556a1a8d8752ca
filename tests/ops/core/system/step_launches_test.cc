// In a step, the CPU asks as much of the GPU for many tables as for a few, and waits for no work
// but the lookup's.
#include "tests/ops/core/device/device_lookups.h"
#include "tests/ops/core/device/device_testing.h"
#include "tests/ops/core/support/table_testing.h"

namespace keras_sparse::step_launches_test {

#ifndef __CUDACC__

// Tables of one op, of 8 and 16 columns, some of which have several inputs: of the model Tiny, or a
// part of it.
class Model {
 public:
  Model(bool is_dynamic, const RuleOptions& rule, const std::vector<int>& inputs_of_tables)
      : device_(OpenDevice()) {
    for (size_t t = 0; t < inputs_of_tables.size(); ++t) {
      const int64_t dim = t % 2 == 0 ? 8 : 16;
      TableOptions options = is_dynamic ? Dynamic(dim) : Options(30, dim);
      options.storage.device = device_;
      tables_.push_back(OpenWithRule(options, rule));
      for (int i = 0; i < inputs_of_tables[t]; ++i) table_of_input_.push_back(t);
    }
  }

  // Returns what was asked of the GPU meanwhile.
  emulated::Counts Step(const std::vector<float>& numbers) {
    constexpr int64_t n = 5;
    const DeviceArray<float> grads =
        OnDevice(device_.get(), std::vector<float>(static_cast<size_t>(n * 16), 0.5f));
    std::vector<DeviceArray<float>> rows;
    std::vector<DeviceArray<int64_t>> splits;
    std::vector<LookupRequest> lookup;
    std::vector<ApplyRequest> update;
    for (size_t i = 0; i < table_of_input_.size(); ++i) {
      EmbeddingTable* table = tables_[table_of_input_[i]].get();
      const auto ids = std::make_shared<DeviceArray<int64_t>>(
          OnDevice(device_.get(), std::vector<int64_t>{3, 1, 3, 29, 1}));
      splits.push_back(OnDevice(device_.get(), std::vector<int64_t>{0, 2, 3, 5}));
      Bags bags = {Combiner::kSum, n, 3, splits.back().data()};
      if (i % 3 == 0) bags = {Combiner::kNone, n, n};
      rows.push_back(OnDevice(device_.get(), std::vector<float>(static_cast<size_t>(n * 16))));
      lookup.push_back({table, ids->data(), bags, rows.back().data()});
      lookup.back().ids_owner = ids;
      if (update.empty() || update.back().table != table) {
        update.push_back({table, {}, RuleGenerationOf(*table), numbers});
      }
      update.back().gradients.push_back({ids->data(), bags, grads.data(), table->dim()});
    }
    const emulated::Counts before = emulated::counts();
    EXPECT_TRUE(IsOk(LookupRows(lookup, Inline())));
    EXPECT_EQ(emulated::counts().waits_for_copies, before.waits_for_copies);
    EXPECT_TRUE(IsOk(ApplyGradients(update, Inline())));
    const emulated::Counts& after = emulated::counts();
    return {after.launches - before.launches,
            after.copies_to_device - before.copies_to_device,
            after.copies_to_host - before.copies_to_host,
            after.fills - before.fills,
            after.waits - before.waits,
            after.waits_for_copies - before.waits_for_copies};
  }

 private:
  std::shared_ptr<Device> device_;
  std::vector<std::unique_ptr<EmbeddingTable>> tables_;
  std::vector<size_t> table_of_input_;
};

std::vector<int> InputsOfTiny() {
  std::vector<int> inputs(55, 1);
  inputs[0] = inputs[1] = inputs[2] = 2;
  return inputs;
}

TEST(StepLaunches, AreAsManyForManyTablesAsForFew) {
  const std::vector<std::pair<RuleOptions, std::vector<float>>> rules = {
      {SgdRule(), {0.1f}}, {AdagradRule(0.1), {0.1f}}};
  for (const auto& [rule, numbers] : rules) {
    for (const bool is_dynamic : {false, true}) {
      SCOPED_TRACE(rule.rule + (is_dynamic ? ", dynamic" : ", static"));
      Model few(is_dynamic, rule, {2, 2});
      Model tiny(is_dynamic, rule, InputsOfTiny());
      // Creates the rows of a dynamic table.
      (void)few.Step(numbers);
      (void)tiny.Step(numbers);
      const emulated::Counts of_few = few.Step(numbers);
      const emulated::Counts of_tiny = tiny.Step(numbers);
      EXPECT_EQ(of_tiny.launches, of_few.launches);
      EXPECT_EQ(of_tiny.copies_to_device, of_few.copies_to_device);
      EXPECT_EQ(of_tiny.fills, of_few.fills);
      EXPECT_EQ(of_tiny.copies_to_host, 1);  // the checks of the lookup's ids
      EXPECT_EQ(of_tiny.waits, 0);
      EXPECT_EQ(of_tiny.waits_for_copies, 1);
    }
  }
}

#endif

}  // namespace keras_sparse::step_launches_test
