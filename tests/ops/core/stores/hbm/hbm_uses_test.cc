// The coldest rows of a GPU's memory are those of a CPU's.
#include "ops/core/stores/hbm/hbm_uses.h"

#include <algorithm>
#include <set>

#include "ops/core/first_tier/cache_strategy.h"
#include "tests/ops/core/device/device_testing.h"

namespace keras_sparse::hbm_uses_test {

using Rows = std::vector<uint32_t>;

// Both, which see the same updates.
class Twins {
 public:
  Twins(const std::string& strategy, int64_t num_rows)
      : device_(OpenDevice()), uses_(device_.get(), strategy == "LFU"), num_rows_(num_rows) {
    EXPECT_TRUE(IsOk(CacheStrategy::Create(strategy, &order_)));
    EXPECT_TRUE(IsOk(HbmTransfer::Open(device_.get(), HbmUses::kRowBytes, &transfer_)));
    EXPECT_TRUE(IsOk(uses_.Grow(num_rows)));
    order_->Resize(num_rows);
  }

  void BeginUpdate() {
    uses_.BeginUpdate();
    ++now_;
  }
  void Start(const Rows& rows) {
    const auto on_device = OnDevice(device_.get(), rows);
    uses_.Start(on_device.data(), on_device.size());
    for (const uint32_t row : rows) order_->Start(row, now_);
    held_.insert(rows.begin(), rows.end());
  }
  void End(const Rows& rows) {
    const auto n = static_cast<int64_t>(rows.size());
    EXPECT_TRUE(IsOk(uses_.End(rows.data(), n, transfer_.get())));
    for (const uint32_t row : rows) held_.erase(row);
  }
  // Rows may repeat, or be none.
  void Use(const Rows& rows) {
    const auto on_device = OnDevice(device_.get(), rows);
    uses_.Use(on_device.data(), on_device.size());
    for (const uint32_t row : rows) {
      if (row != kNoHbmRow) order_->Use(row, now_);
    }
  }

  void CheckColdest(int64_t n) const {
    HbmUses::Coldest coldest;
    ASSERT_TRUE(IsOk(uses_.FindColdest(n, num_rows_, transfer_.get(), &coldest)));
    const auto score = [this](uint32_t row) { return order_->Score(row, now_); };
    std::vector<uint64_t> scores;
    for (const uint32_t row : held_) scores.push_back(score(row));
    std::nth_element(scores.begin(), scores.begin() + (n - 1), scores.end());
    const uint64_t last = scores[static_cast<size_t>(n - 1)];
    std::set<uint32_t> below;
    std::set<uint32_t> equal;
    for (const uint32_t row : held_) {
      if (score(row) < last) below.insert(row);
      if (score(row) == last) equal.insert(row);
    }
    EXPECT_EQ(coldest.rows.size(), below.size());
    EXPECT_EQ(coldest.tied.size(), equal.size());
    EXPECT_EQ(std::set<uint32_t>(coldest.rows.begin(), coldest.rows.end()), below);
    EXPECT_EQ(std::set<uint32_t>(coldest.tied.begin(), coldest.tied.end()), equal);
    EXPECT_EQ(coldest.num_of_tied, n - static_cast<int64_t>(below.size()));
  }
  int64_t num_held() const { return static_cast<int64_t>(held_.size()); }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<HbmTransfer> transfer_;
  HbmUses uses_;
  int64_t num_rows_;
  std::unique_ptr<CacheStrategy> order_;
  std::set<uint32_t> held_;
  uint32_t now_ = 0;
};

Rows Numbers(int64_t first, int64_t last) {
  Rows rows;
  for (int64_t row = first; row < last; ++row) rows.push_back(static_cast<uint32_t>(row));
  return rows;
}

Rows RandomRows(int64_t n, int64_t num_rows, uint64_t seed) {
  const std::vector<int64_t> ids = RandomIds(n, 0, num_rows - 1, seed);
  return {ids.begin(), ids.end()};
}

class HbmUsesOf : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Strategy, HbmUsesOf, ::testing::Values("LRU", "LFU"),
                         [](const auto& param) { return param.param; });

TEST_P(HbmUsesOf, FindTheColdestRowsThatACpuFinds) {
  InAnyOrder([] {
    constexpr int64_t kRows = 300;
    Twins twins(GetParam(), kRows);
    twins.BeginUpdate();
    twins.Start(Numbers(0, kRows));
    for (uint64_t step = 1; step <= 6; ++step) {
      // Old uses have been halved by then.
      for (int64_t i = 0; i < (step % 4 == 0 ? 1500 : 1); ++i) twins.BeginUpdate();
      const int64_t num_hot = step % 3 == 0 ? 30 : kRows;
      Rows used = RandomRows(100, num_hot, step);
      used.push_back(kNoHbmRow);
      twins.Use(used);
      twins.Use(used);  // at the same time
      if (step % 5 == 0) {
        const Rows gone = Numbers(100, 150);
        twins.End(gone);
        twins.CheckColdest(200);
        twins.BeginUpdate();
        twins.Start(gone);
      }
      for (const int64_t n : {int64_t{44}, twins.num_held()}) {
        twins.CheckColdest(n);
      }
    }
  });
}

TEST_P(HbmUsesOf, LookThroughMoreRowsThanAPieceHolds) {
  constexpr int64_t kRows = 300000;
  Twins twins(GetParam(), kRows);
  twins.BeginUpdate();
  twins.Start(Numbers(0, kRows));
  twins.BeginUpdate();
  twins.Use(RandomRows(200000, kRows, 1));
  twins.CheckColdest(1000);
  twins.CheckColdest(250000);
}

}  // namespace keras_sparse::hbm_uses_test
