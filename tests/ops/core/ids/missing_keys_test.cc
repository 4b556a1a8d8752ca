#include "ops/core/ids/missing_keys.h"

#include <map>
#include <utility>

#include "ops/core/index/hbm_row.h"
#include "tests/ops/core/device/device_testing.h"

namespace keras_sparse::missing_keys_test {

using cuda_impl::FoundIds;
using cuda_impl::MissingKeys;

// Ids, of which those that are not a multiple of `found` have no row; 0 for none that has one.
struct List {
  List(Device* device, std::vector<int64_t> all, int64_t found) : ids(std::move(all)) {
    std::vector<uint32_t> rows;
    std::map<int64_t, int64_t> place_of;
    for (const int64_t id : ids) {
      const bool is_found = found != 0 && id % found == 0;
      rows.push_back(is_found ? static_cast<uint32_t>(rows.size()) : kNoHbmRow);
      if (is_found) continue;
      if (++counts[id] == 1) arrivals.push_back(id);
      ++num_missing;
    }
    ids_there = OnDevice(device, ids);
    rows_there = OnDevice(device, rows);
  }

  FoundIds request() const {
    return {ids_there.data(), rows_there.data(), ids_there.size(), num_missing};
  }
  void Check(const MissingKeys& missing) const {
    std::vector<int64_t> keys;
    std::vector<int64_t> found_counts;
    std::vector<uint32_t> places;
    ASSERT_TRUE(IsOk(missing.ReadKeys(&keys)));
    ASSERT_TRUE(IsOk(missing.ReadCounts(&found_counts)));
    ASSERT_TRUE(IsOk(missing.ReadArrivals(&places)));
    ASSERT_EQ(missing.size(), static_cast<int64_t>(counts.size()));
    std::vector<int64_t> expected_keys;
    std::vector<int64_t> expected_counts;
    for (const auto& [key, count] : counts) {
      expected_keys.push_back(key);
      expected_counts.push_back(count);
    }
    EXPECT_EQ(keys, expected_keys);
    EXPECT_EQ(found_counts, expected_counts);
    std::vector<int64_t> came;
    for (const uint32_t place : places) came.push_back(keys[place]);
    EXPECT_EQ(came, arrivals);
  }

  std::vector<int64_t> ids;
  std::map<int64_t, int64_t> counts;  // of those without a row, in their order
  std::vector<int64_t> arrivals;
  int64_t num_missing = 0;
  DeviceArray<int64_t> ids_there;
  DeviceArray<uint32_t> rows_there;
};

TEST(MissingKeys, AreDistinctAndInTheirOrderOfEveryListAtOnce) {
  InAnyOrder([] {
    const auto device = OpenDevice();
    std::vector<List> lists;
    lists.emplace_back(device.get(), std::vector<int64_t>{5, -3, 5, 0, INT64_MIN, -3, INT64_MAX, 5},
                       0);
    lists.emplace_back(device.get(), std::vector<int64_t>{4, 8, 4}, 4);
    lists.emplace_back(device.get(), std::vector<int64_t>{}, 0);
    lists.emplace_back(device.get(), std::vector<int64_t>{-1}, 0);
    lists.emplace_back(device.get(), RandomIds(3000, -1000, 1000, 7), 3);
    std::vector<FoundIds> requests;
    for (const List& each : lists) requests.push_back(each.request());
    std::vector<MissingKeys> missing;
    ASSERT_TRUE(IsOk(MissingKeys::Find(requests, device.get(), &missing)));
    ASSERT_EQ(missing.size(), lists.size());
    for (size_t i = 0; i < lists.size(); ++i) lists[i].Check(missing[i]);
  });
}

TEST(MissingKeys, AreNotThereWithoutRoomForThem) {
  const auto device = OpenDevice();
  const List list(device.get(), {3, 1, 2, 3}, 0);
  std::vector<MissingKeys> missing;
  FailAtEachAllocation([&] { return MissingKeys::Find({list.request()}, device.get(), &missing); },
                       [&] { EXPECT_TRUE(missing.empty()); }, 6);
  list.Check(missing[0]);
}

}  // namespace keras_sparse::missing_keys_test
