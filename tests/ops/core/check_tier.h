// What every first tier keeps to; a new one joins with one line in its test.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_CHECK_TIER_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_CHECK_TIER_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "ops/core/first_tier.h"
#include "ops/core/prefetch.h"
#include "tests/ops/core/testing.h"
#include "tests/ops/core/thread_executor.h"

namespace keras_sparse {

inline std::map<int64_t, const float*> WalkAll(const FirstTier& tier, int64_t max_rows) {
  std::map<int64_t, const float*> all;
  for (int64_t cursor = 0; cursor >= 0;) {
    std::vector<int64_t> keys;
    std::vector<const float*> records;
    cursor = tier.Walk(cursor, max_rows, &keys, &records);
    EXPECT_EQ(keys.size(), records.size());
    EXPECT_LE(static_cast<int64_t>(keys.size()) - 4000, std::max<int64_t>(1, max_rows));
    for (size_t i = 0; i < keys.size(); ++i) {
      EXPECT_TRUE(all.emplace(keys[i], records[i]).second) << keys[i] << " came twice";
    }
  }
  return all;
}

// Finds or creates these keys, a block at a time.
inline std::vector<float*> FindOrCreate(FirstTier* tier, const std::vector<int64_t>& keys) {
  std::vector<float*> records(keys.size());
  const auto n = static_cast<int64_t>(keys.size());
  const std::unique_ptr<bool[]> created(new bool[keys.size()]);
  for (int64_t at = 0; at < n; at += kBlockRows) {
    EXPECT_TRUE(IsOk(tier->FindOrCreate(keys.data() + at, std::min(kBlockRows, n - at),
                                        records.data() + at, created.get() + at)));
  }
  return records;
}

inline float* Find(const FirstTier& tier, int64_t key) {
  float* record = nullptr;
  tier.Find(&key, 1, &record);
  return record;
}

// `open` makes a tier for a schema; `keys` are some it accepts, all different.
inline void CheckTier(const std::function<std::unique_ptr<FirstTier>(const RowSchema&)>& open,
                      const std::vector<int64_t>& keys, int64_t num_rows) {
  const RowSchema before(3, {}, false);
  const std::unique_ptr<FirstTier> tier = open(before);
  const std::vector<float*> records = FindOrCreate(tier.get(), keys);
  EXPECT_EQ(FindOrCreate(tier.get(), keys), records) << "rows must stay where they are";
  EXPECT_EQ(tier->num_rows(), num_rows);
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_TRUE(tier->Accepts(keys[i]));
    ASSERT_EQ(Find(*tier, keys[i]), records[i]);
    std::fill_n(records[i], 3, static_cast<float>(i));
  }
  for (const int64_t max_rows : {int64_t{0}, int64_t{1}, int64_t{1000}, INT64_MAX}) {
    EXPECT_EQ(static_cast<int64_t>(WalkAll(*tier, max_rows).size()), num_rows);
  }

  // row | accumulator | one float | step word, and back again.
  const RowSchema after(3, {{"accumulator", false, 0.5f}, {"norm", true, 2.0f}}, true);
  ThreadExecutor executor(3);
  ASSERT_TRUE(IsOk(tier->Relayout(after, 9, &executor)));
  EXPECT_EQ(tier->num_rows(), num_rows);
  for (size_t i = 0; i < keys.size(); ++i) {
    const float* record = Find(*tier, keys[i]);
    const auto value = static_cast<float>(i);
    ASSERT_EQ(std::vector<float>(record, record + 7),
              (std::vector<float>{value, value, value, 0.5f, 0.5f, 0.5f, 2.0f}));
    ASSERT_EQ(after.LastStep(record), 9);
  }
  ASSERT_TRUE(IsOk(tier->Relayout(before, 0, &executor)));
  const auto walked = WalkAll(*tier, 100);
  EXPECT_EQ(static_cast<int64_t>(walked.size()), num_rows);
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(Find(*tier, keys[i]), walked.at(keys[i]));
    ASSERT_EQ(Find(*tier, keys[i])[2], static_cast<float>(i));
  }
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_CHECK_TIER_H_
