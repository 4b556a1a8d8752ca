#include "ops/core/index/hbm_index.h"

#include <unordered_map>
#include <unordered_set>

#include "ops/core/device/device_requests.h"
#include "ops/core/index/hbm_index_find.h"
#include "tests/ops/core/device/device_testing.h"

namespace keras_sparse::hbm_index_test {

__global__ void FindByLaneKernel(HbmIndexView view, const int64_t* keys, int64_t n,
                                 uint32_t* rows) {
  for (int64_t i = cuda_impl::LaneOfKernel(); i < n; i += cuda_impl::LanesOfKernel()) {
    rows[i] = view.Find(keys[i]);
  }
}

// An index, and what ought to be in it.
class Checked {
 public:
  explicit Checked(Device* device) : device_(device) {
    EXPECT_TRUE(IsOk(HbmIndex::Open(device, &index_)));
  }

  HbmIndex& index() { return index_; }
  bool Has(int64_t key) const { return expected_.count(key) > 0; }

  // Distinct keys, none of them there.
  Status Insert(const std::vector<int64_t>& keys) {
    std::vector<uint32_t> rows;
    for (size_t i = 0; i < keys.size(); ++i) {
      rows.push_back(next_row_ + static_cast<uint32_t>(i) * 2654435761u);
    }
    const auto keys_there = OnDevice(device_, keys);
    const auto rows_there = OnDevice(device_, rows);
    KERAS_SPARSE_RETURN_IF_ERROR(
        index_.Insert(keys_there.data(), rows_there.data(), static_cast<int64_t>(keys.size())));
    for (size_t i = 0; i < keys.size(); ++i) expected_[keys[i]] = rows[i];
    ++next_row_;
    return Status::Ok();
  }

  void Erase(const std::vector<int64_t>& keys) {
    const auto keys_there = OnDevice(device_, keys);
    const auto rows_there = OnDevice(device_, std::vector<uint32_t>(keys.size(), 7));
    ASSERT_TRUE(IsOk(
        index_.Erase(keys_there.data(), static_cast<int64_t>(keys.size()), rows_there.data())));
    const std::vector<uint32_t> rows = Values(rows_there);
    for (size_t i = 0; i < keys.size(); ++i) {
      ASSERT_EQ(rows[i], RowOf(keys[i])) << keys[i];
      expected_.erase(keys[i]);
    }
  }

  // Looks for all that is there, and for these, by a tile and by a lane.
  void Expect(std::vector<int64_t> keys) const {
    for (const auto& [key, row] : expected_) keys.push_back(key);
    EXPECT_EQ(index_.size(), static_cast<int64_t>(expected_.size()));
    const auto n = static_cast<int64_t>(keys.size());
    const auto keys_there = OnDevice(device_, keys);
    const auto rows = OnDevice(device_, std::vector<uint32_t>(keys.size(), 7));
    const auto rows_by_lane = OnDevice(device_, std::vector<uint32_t>(keys.size(), 7));
    index_.Find(keys_there.data(), n, rows.data());
    cuda_impl::Launch(FindByLaneKernel, 2, 64, device_->stream(), index_.view(), keys_there.data(),
                      n, rows_by_lane.data());
    std::vector<uint32_t> expected;
    for (const int64_t key : keys) expected.push_back(RowOf(key));
    EXPECT_EQ(Values(rows), expected);
    EXPECT_EQ(Values(rows_by_lane), expected);
  }

  // The share of buckets that send searches on.
  double Overflowed() const {
    const HbmIndexView view = index_.view();
    std::vector<HbmBucket> buckets(view.num_buckets);
    EXPECT_TRUE(IsOk(device_->CopyToHost(
        view.buckets, static_cast<int64_t>(buckets.size() * sizeof(HbmBucket)), buckets.data())));
    double number = 0;
    for (const HbmBucket& bucket : buckets) {
      number += (bucket.words[0] & HbmBucket::kOverflowed) != 0 ? 1 : 0;
    }
    return number / static_cast<double>(buckets.size());
  }

 private:
  uint32_t RowOf(int64_t key) const {
    const auto at = expected_.find(key);
    return at == expected_.end() ? kNoHbmRow : at->second;
  }

  Device* device_;
  HbmIndex index_;
  std::unordered_map<int64_t, uint32_t> expected_;
  uint32_t next_row_ = 5;
};

std::vector<int64_t> Distinct(const std::vector<int64_t>& keys) {
  std::unordered_set<int64_t> seen;
  std::vector<int64_t> distinct;
  for (const int64_t key : keys) {
    if (seen.insert(key).second) distinct.push_back(key);
  }
  return distinct;
}

std::vector<int64_t> Missing(const Checked& checked, const std::vector<int64_t>& keys) {
  std::vector<int64_t> missing;
  for (const int64_t key : Distinct(keys)) {
    if (!checked.Has(key)) missing.push_back(key);
  }
  return missing;
}

// `n` keys from `first` on whose home is this bucket.
std::vector<int64_t> KeysOf(const HbmIndexView& view, uint32_t bucket, size_t n, int64_t first) {
  std::vector<int64_t> keys;
  for (int64_t key = first; keys.size() < n; ++key) {
    if (view.HomeOf(key) == bucket) keys.push_back(key);
  }
  return keys;
}

TEST(HbmIndex, HasEveryInt64AsAKey) {
  InAnyOrder([] {
    const auto device = OpenDevice();
    Checked checked(device.get());
    checked.Expect(ExtremeKeys());  // none there yet
    checked.Erase(ExtremeKeys());
    ASSERT_TRUE(IsOk(checked.Insert({})));
    ASSERT_TRUE(IsOk(checked.Insert(ExtremeKeys())));
    checked.Expect({2, -2, 0, 0});
    checked.Erase({0, 5, std::numeric_limits<int64_t>::min()});
    checked.Expect(ExtremeKeys());
    ASSERT_TRUE(IsOk(checked.Insert({0})));
    checked.Expect(ExtremeKeys());
    checked.index().Clear();
    EXPECT_EQ(checked.index().size(), 0);
    EXPECT_LT(checked.index().bytes(), 10);
  });
}

TEST(HbmIndex, AgreesWithAMapAsItGrowsAndShrinks) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    InAnyOrder([&] {
      const auto device = OpenDevice();
      Checked checked(device.get());
      for (uint64_t round = 0; round < 12; ++round) {
        const int64_t range = round % 4 == 0 ? std::numeric_limits<int64_t>::max() : 1500;
        const std::vector<int64_t> keys = RandomIds(300, -range, range, 100 * seed + round);
        if (round % 3 == 2) {
          checked.Erase(Distinct(keys));
        } else {
          ASSERT_TRUE(IsOk(checked.Insert(Missing(checked, keys))));
        }
        checked.Expect(RandomIds(200, -2000, 2000, round));
      }
    });
  }
}

TEST(HbmIndex, TakesKeysThatBelongInOneBucket) {
  InAnyOrder([] {
    const auto device = OpenDevice();
    Checked checked(device.get());
    ASSERT_TRUE(IsOk(checked.index().Reserve(100)));
    const HbmIndexView view = checked.index().view();
    const uint32_t last = view.num_buckets - 1;  // after which comes the first
    const std::vector<int64_t> keys = KeysOf(view, last, 45, 0);
    ASSERT_TRUE(IsOk(checked.Insert(keys)));
    EXPECT_EQ(checked.index().view().buckets, view.buckets);
    const std::vector<int64_t> others = KeysOf(view, last, 20, keys.back() + 1);
    checked.Expect(others);
    // What was pushed on stays where it is as those before it go, and what comes takes their place.
    checked.Erase({keys.begin(), keys.begin() + 30});
    checked.Expect(keys);
    ASSERT_TRUE(IsOk(checked.Insert(others)));
    checked.Expect(keys);
    EXPECT_EQ(checked.index().view().buckets, view.buckets);
  });
}

TEST(HbmIndex, TakesAsManyKeysAsItHasRoomFor) {
  InAnyOrder([] {
    const auto device = OpenDevice();
    Checked checked(device.get());
    ASSERT_TRUE(IsOk(checked.index().Reserve(600)));
    const HbmIndexView view = checked.index().view();
    const int64_t most = int64_t{view.num_buckets} * 17 / 2;
    EXPECT_LT(most, 610);
    std::vector<int64_t> keys;
    for (int64_t key = 0; key < most; ++key) keys.push_back(key * 1000003);
    ASSERT_TRUE(IsOk(checked.Insert(keys)));
    EXPECT_EQ(checked.index().view().buckets, view.buckets);
    checked.Expect(RandomIds(300, 0, 100000, 1));
    ASSERT_TRUE(IsOk(checked.Insert({-1})));
    EXPECT_EQ(checked.index().view().num_buckets, view.num_buckets * 3 / 2);
    checked.Expect(RandomIds(300, 0, 100000, 2));
  });
}

TEST(HbmIndex, EndsASearchWhenEveryBucketHasOverflowed) {
  const auto device = OpenDevice();
  Checked checked(device.get());
  ASSERT_TRUE(IsOk(checked.index().Reserve(50)));
  const HbmIndexView view = checked.index().view();
  for (uint32_t bucket = 0; bucket < view.num_buckets; ++bucket) {
    const std::vector<int64_t> keys = KeysOf(view, bucket, 11, 0);
    ASSERT_TRUE(IsOk(checked.Insert(keys)));
    checked.Erase(keys);
  }
  EXPECT_EQ(checked.Overflowed(), 1);
  checked.Expect(RandomIds(50, 0, 1000, 1));
  checked.Erase({1, 2, 3});
  ASSERT_TRUE(IsOk(checked.Insert({1, 2, 3})));
  checked.Expect(RandomIds(50, 0, 1000, 1));
}

TEST(HbmIndex, StaysSmallAndFastWhileKeysComeAndGo) {
  const auto device = OpenDevice();
  Checked checked(device.get());
  constexpr int64_t kKeys = 900;
  constexpr int64_t kPiece = 300;
  int64_t most_bytes = 0;
  double overflowed = 0;
  int64_t num_checks = 0;
  for (int64_t first = 0; first < 60 * kPiece; first += kPiece) {
    std::vector<int64_t> gone;
    std::vector<int64_t> come;
    for (int64_t key = first; key < first + kPiece; ++key) {
      gone.push_back(key - kKeys);
      come.push_back(key);
    }
    checked.Erase(gone);
    ASSERT_TRUE(IsOk(checked.Insert(come)));
    if (first < kKeys) continue;
    most_bytes = std::max(most_bytes, checked.index().bytes());
    overflowed += checked.Overflowed();
    ++num_checks;
    if (first % (10 * kPiece) == 0) checked.Expect(gone);
  }
  // In buckets of which 38 % at least are in use, few send searches on.
  EXPECT_LT(most_bytes, kKeys * 34 + 200);
  EXPECT_LT(overflowed / static_cast<double>(num_checks), 0.2);
}

TEST(HbmIndex, StaysAsItIsIfItCannotGrow) {
  const auto device = OpenDevice();
  Checked checked(device.get());
  for (uint64_t round = 0; round < 4; ++round) {
    const std::vector<int64_t> keys = Missing(checked, RandomIds(200, 0, int64_t{1} << 40, round));
    FailAtEachAllocation([&] { return checked.index().Reserve(static_cast<int64_t>(keys.size())); },
                         [&] { checked.Expect(keys); });
    const HbmBucket* buckets = checked.index().view().buckets;
    ASSERT_TRUE(IsOk(checked.Insert(keys)));
    EXPECT_EQ(checked.index().view().buckets, buckets);
    checked.Expect({});
  }
}

#ifndef __CUDACC__

TEST(HbmIndex, TakesKeysWhereThereIsNoRoomToRemoveTraces) {
  const auto device = OpenDevice();
  Checked checked(device.get());
  ASSERT_TRUE(IsOk(checked.index().Reserve(300)));
  const HbmBucket* buckets = checked.index().view().buckets;
  std::vector<int64_t> keys;
  for (int64_t round = 0; round < 8; ++round) {
    keys = RandomIds(150, 0, 100, static_cast<uint64_t>(round));
    keys = Distinct(keys);
    ASSERT_TRUE(IsOk(checked.Insert(keys)));
    ASSERT_EQ(checked.index().view().buckets, buckets);
    checked.Erase(keys);
  }
  emulated::options().allocations_left = 0;
  EXPECT_TRUE(IsOk(checked.index().Reserve(300)));
  EXPECT_EQ(checked.index().view().buckets, buckets);
  EXPECT_FALSE(checked.index().Reserve(400).ok());
  emulated::options().allocations_left = INT64_MAX;
  EXPECT_TRUE(IsOk(checked.index().Reserve(300)));
  EXPECT_NE(checked.index().view().buckets, buckets);
  ASSERT_TRUE(IsOk(checked.Insert(keys)));
  checked.Expect({});
}

#endif

}  // namespace keras_sparse::hbm_index_test
