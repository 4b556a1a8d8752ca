// Which rows leave a GPU's memory that is over lower tiers: those that the rules of a first tier
// say.
#include "ops/core/stores/hbm/hbm_limit.h"

#include <tuple>

#include "ops/core/index/hbm_index_find.h"
#include "ops/core/record/row_uses.h"
#include "ops/core/stores/hbm/hbm_store.h"
#include "tests/ops/core/device/device_testing.h"
#include "tests/ops/core/support/check_store.h"

namespace keras_sparse::hbm_limit_test {

constexpr int64_t kRecordBytes = 36;
constexpr int64_t kRowBytes = 64 + 32;

__global__ void FindKernel(HbmIndexView index, const int64_t* keys, int64_t n, uint32_t* rows) {
  for (int64_t i = cuda_impl::LaneOfKernel(); i < n; i += cuda_impl::LanesOfKernel()) {
    rows[i] = index.Find(keys[i]);
  }
}

// A store that holds so many rows, and what ought to be there.
class LimitedStore {
 public:
  LimitedStore(int64_t limit, const std::string& strategy)
      : limit_(limit), counts_(strategy == "LFU"), device_(OpenDevice()) {
    EXPECT_TRUE(IsOk(HbmStore::Open(device_.get(), -1, kRecordBytes,
                                    {limit * kRowBytes + kRowBytes - 1, strategy}, &store_)));
  }

  // One update: rows of new keys come in, those of the others are used. Then the excess leaves.
  void Update(std::vector<int64_t> keys) {
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    store_->BeginUpdate();
    ++now_;
    num_started_ = 0;
    std::vector<int64_t> new_keys;
    for (const int64_t key : keys) {
      const auto at = expected_.find(key);
      if (at == expected_.end()) {
        new_keys.push_back(key);
        expected_[key] = {1, now_};
        ++num_started_;
      } else {
        at->second = at->second.UsedAt(now_);
      }
    }
    ASSERT_TRUE(IsOk(PutRecords(store_.get(), new_keys, 1)));
    Use(keys);
    DropExcess();
  }

  void Erase(const std::vector<int64_t>& keys) {
    ASSERT_TRUE(IsOk(store_->Erase(keys.data(), static_cast<int64_t>(keys.size()))));
    for (const int64_t key : keys) expected_.erase(key);
  }

  int64_t num_rows() const { return store_->num_rows(); }
  int64_t num_left() const { return num_left_; }

 private:
  void Use(const std::vector<int64_t>& keys) {
    // By the index, as kernels find them.
    const auto keys_there = OnDevice(device_.get(), keys);
    const auto rows = OnDevice(device_.get(), std::vector<uint32_t>(keys.size()));
    cuda_impl::Launch(FindKernel, 1, 32, device_->stream(), store_->index_view(), keys_there.data(),
                      keys_there.size(), rows.data());
    store_->Use(rows.data(), rows.size());
  }

  void DropExcess() {
    HbmStore::Excess excess;
    ASSERT_TRUE(IsOk(store_->ReadExcess(&excess)));
    std::vector<int64_t>& keys = excess.keys;
    std::vector<int64_t> leaving = ExpectedExcess();
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto* record = excess.records.get() + static_cast<int64_t>(i) * kRecordBytes;
      ASSERT_EQ(std::string(record, kRecordBytes), MakeRecord(keys[i], 1, kRecordBytes));
    }
    ASSERT_TRUE(IsOk(store_->EraseMoved(keys.data(), static_cast<int64_t>(keys.size()))));
    num_left_ += static_cast<int64_t>(keys.size());
    std::sort(keys.begin(), keys.end());
    std::sort(leaving.begin(), leaving.end());
    ASSERT_EQ(keys, leaving);
    for (const int64_t key : leaving) expected_.erase(key);
  }

  std::vector<int64_t> ExpectedExcess() {
    const auto size = static_cast<int64_t>(expected_.size());
    has_been_full_ = has_been_full_ || size > limit_;
    if (!has_been_full_) return {};
    std::vector<std::tuple<uint64_t, int64_t>> rows;
    for (const auto& [key, uses] : expected_) {
      rows.emplace_back(
          counts_ ? uses.FrequencyScore(now_) : uint64_t{RecencyScore(uses.last, now_)}, key);
    }
    std::sort(rows.begin(), rows.end());
    rows.resize(static_cast<size_t>(size - NumRowsKept(size, limit_, num_started_)));
    std::vector<int64_t> keys;
    for (const auto& row : rows) keys.push_back(std::get<1>(row));
    return keys;
  }

  const int64_t limit_;
  const bool counts_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<HbmStore> store_;
  std::map<int64_t, RowUses> expected_;
  uint32_t now_ = 0;
  int64_t num_started_ = 0;
  int64_t num_left_ = 0;
  bool has_been_full_ = false;
};

class HbmLimitOf : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Strategy, HbmLimitOf, ::testing::Values("LRU", "LFU"),
                         [](const auto& param) { return param.param; });

TEST_P(HbmLimitOf, LetsTheColdestRowsGoAndOfEqualOnesThoseWithTheLowestKeys) {
  for (const int64_t limit : {0, 1, 50, 160}) {
    LimitedStore store(limit, GetParam());
    for (uint64_t step = 1; step <= 25; ++step) {
      const int64_t n = step % 6 == 0 ? 100 : 20;
      std::vector<int64_t> keys = RandomIds(n, -150, 150, step);
      const std::vector<int64_t> hot = Range(0, 10);
      keys.insert(keys.end(), hot.begin(), hot.end());
      store.Update(keys);
      EXPECT_LE(store.num_rows(), limit);
      if (step % 5 == 0) store.Erase({3, -20, 77, 1000});
    }
    EXPECT_GT(store.num_left(), 100);
  }
}

TEST(HbmLimit, IsOfRecordsAloneWithoutLowerTiers) {
  EXPECT_FALSE(HbmLimit().is_over_lower_tiers());
  EXPECT_TRUE((HbmLimit{100, "LRU"}).is_over_lower_tiers());
  const auto device = OpenDevice();
  std::unique_ptr<HbmStore> store;
  ASSERT_TRUE(IsOk(HbmStore::Open(device.get(), -1, kRecordBytes, {64 * 100, ""}, &store)));
  EXPECT_EQ(store->Room(), 100);
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 100), 1)));
  HbmStore::Excess excess;
  ASSERT_TRUE(IsOk(store->ReadExcess(&excess)));
  EXPECT_TRUE(excess.keys.empty());
}

}  // namespace keras_sparse::hbm_limit_test
