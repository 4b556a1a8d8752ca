// Steps and lookups of tables in a GPU's memory whose rows miss steps.

#include "tests/ops/core/device/table_twins.h"
#include "tests/ops/core/support/all_rule_cases.h"

namespace keras_sparse::deferred_updates_in_steps_test {

constexpr int64_t kRows = 24;

// Rules of each kind of moves, at rates that change and change their signs: rows are read and
// updated after any number of steps.
TEST(DeferredUpdatesInSteps, AreMadeAsOnTheCpu) {
  std::vector<RuleCase> cases;
  for (const RuleCase& each : AllRuleCases()) {
    const bool decays = each.options.weight_decay != 0;
    if (each.dense && (decays || each.slots.size() > 1 || each.options.rule == "lion"))
      cases.push_back(each);
  }
  const auto device = OpenDevice();
  std::vector<std::unique_ptr<TableTwins>> all;
  for (size_t i = 0; i < cases.size(); ++i) {
    const int64_t dim = i % 2 == 0 ? 5 : 4;
    all.push_back(
        std::make_unique<TableTwins>(device.get(), Options(kRows, dim), cases[i].options));
  }
  for (int64_t step = 1; step <= 200; ++step) {
    const double rate = 0.05 * std::sin(static_cast<double>(step) / 20);
    std::vector<cuda_impl::UpdateRequest> requests;
    std::vector<std::vector<int64_t>> ids(all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      const auto seed = static_cast<uint64_t>(step) + 1000 * i;
      // Half of the rows come rarely.
      ids[i] = RandomIds(3, 0, step % 40 == 0 ? kRows - 1 : kRows / 2, seed);
      all[i]->Begin(ids[i], NoBags(ids[i]), RandomFloats(3 * all[i]->table()->dim(), seed),
                    cases[i].Numbers({step, rate}));
      requests.push_back(all[i]->Request());
    }
    ASSERT_TRUE(IsOk(Update(requests, device.get())));
    for (size_t i = 0; i < all.size(); ++i) {
      SCOPED_TRACE(cases[i].name + " in step " + std::to_string(step));
      all[i]->Finish();
      if (step % 10 != 0) continue;
      const std::vector<int64_t> read = RandomIds(6, 0, kRows - 1, static_cast<uint64_t>(step));
      ASSERT_EQ(Bits(all[i]->Read(read)), Bits(Lookup(all[i]->table(), read)));
    }
  }
}

}  // namespace keras_sparse::deferred_updates_in_steps_test
