// What every first tier keeps to; a new one joins with one line in its test.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_CHECK_TIER_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_CHECK_TIER_H_

#include <map>
#include <set>

#include "ops/core/base/hash.h"
#include "ops/core/first_tier/first_tier.h"
#include "ops/core/math/prefetch.h"
#include "ops/core/record/initializer.h"
#include "tests/ops/core/support/thread_executor.h"

namespace keras_sparse {

// Walk, or WalkChanged.
using TierWalk = int64_t (FirstTier::*)(int64_t, int64_t, std::vector<int64_t>*,
                                        std::vector<const float*>*) const;

inline std::map<int64_t, const float*> WalkAll(const FirstTier& tier, int64_t max_rows,
                                               TierWalk walk = &FirstTier::Walk) {
  std::map<int64_t, const float*> all;
  for (int64_t cursor = 0; cursor >= 0;) {
    std::vector<int64_t> keys;
    std::vector<const float*> records;
    cursor = (tier.*walk)(cursor, max_rows, &keys, &records);
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

// Of these keys the tier calls those changed, and no other of its rows.
inline void ExpectChanged(const FirstTier& tier, const std::vector<int64_t>& keys,
                          const std::set<int64_t>& changed) {
  for (const int64_t key : keys) {
    ASSERT_EQ(tier.IsChanged(key), changed.count(key) > 0) << "key " << key;
  }
  for (const int64_t max_rows : {1, 70, 100000}) {
    const auto walked = WalkAll(tier, max_rows, &FirstTier::WalkChanged);
    ASSERT_EQ(walked.size(), changed.size());
    for (const auto& [key, record] : walked) {
      ASSERT_EQ(changed.count(key), 1u) << "key " << key;
      ASSERT_EQ(record, Find(tier, key));
    }
  }
}

// Finds or creates keys of all parts at once, a thread for each part.
inline void FindOrCreateInParts(FirstTier* tier, const std::vector<int64_t>& keys,
                                Executor* executor) {
  const int bits = std::min(6, tier->max_partition_bits());
  std::vector<std::vector<int64_t>> parts(size_t{1} << bits);
  for (const int64_t key : keys) parts[TopBits(HashKey(key), bits)].push_back(key);
  executor->ParallelFor(static_cast<int64_t>(parts.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      (void)FindOrCreate(tier, parts[static_cast<size_t>(part)]);
    }
  });
}

// The tier has rows of these keys, and no others.
inline void CheckChanges(FirstTier* tier, const std::vector<int64_t>& keys) {
  const auto every = [&](size_t nth) {
    std::vector<int64_t> some;
    for (size_t i = 0; i < keys.size(); i += nth) some.push_back(keys[i]);
    return some;
  };
  const auto set_of = [](const std::vector<int64_t>& some) {
    return std::set<int64_t>(some.begin(), some.end());
  };
  ThreadExecutor executor(4);
  for (int round = 0; round < 2; ++round) {
    tier->TrackChanges();
    ExpectChanged(*tier, keys, {});
    (void)FindOrCreate(tier, every(5));
    (void)FindOrCreate(tier, every(10));  // once more
    ExpectChanged(*tier, keys, set_of(every(5)));
    (void)WalkAll(*tier, 1000);
    ExpectChanged(*tier, keys, set_of(every(5)));
    tier->TrackChanges();
    FindOrCreateInParts(tier, every(3), &executor);
    ExpectChanged(*tier, keys, set_of(every(3)));
  }
  // What is erased is not there; what is there anew has changed.
  tier->TrackChanges();
  for (const int64_t key : every(4)) {
    if (!tier->Erase(key)) return;
  }
  ExpectChanged(*tier, keys, {});
  (void)FindOrCreate(tier, every(8));
  ExpectChanged(*tier, keys, set_of(every(8)));
  for (const int64_t key : every(8)) (void)tier->Erase(key);
  ExpectChanged(*tier, keys, {});
  (void)FindOrCreate(tier, every(4));
  ExpectChanged(*tier, keys, set_of(every(4)));
}

// `open` makes a tier for a layout; `keys` are some of the table, all different.
inline void CheckTier(const std::function<std::unique_ptr<FirstTier>(const RecordLayout&)>& open,
                      const std::vector<int64_t>& keys, int64_t num_rows) {
  const RecordLayout before(3, {}, false);
  const std::unique_ptr<FirstTier> tier = open(before);
  const std::vector<float*> records = FindOrCreate(tier.get(), keys);
  EXPECT_EQ(FindOrCreate(tier.get(), keys), records) << "rows must stay where they are";
  EXPECT_EQ(tier->num_rows(), num_rows);
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(Find(*tier, keys[i]), records[i]);
    std::fill_n(records[i], 3, static_cast<float>(i));
  }
  for (const int64_t max_rows : {int64_t{0}, int64_t{1}, int64_t{1000}, INT64_MAX}) {
    EXPECT_EQ(static_cast<int64_t>(WalkAll(*tier, max_rows).size()), num_rows);
  }

  // row | accumulator | one float | step word, and back again.
  const RecordLayout after(3, {{"accumulator", false, 0.5f}, {"norm", true, 2.0f}}, true);
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

  // Changes count from TrackChanges on, whatever was laid out anew or cleared before it.
  CheckChanges(tier.get(), keys);
  ASSERT_TRUE(IsOk(tier->Relayout(after, 0, &executor)));
  (void)FindOrCreate(tier.get(), keys);
  CheckChanges(tier.get(), keys);
  std::unique_ptr<Initializer> initializer;
  ASSERT_TRUE(IsOk(Initializer::Create({}, &initializer)));
  ASSERT_TRUE(IsOk(tier->Clear(*initializer, 0, &executor)));
  (void)FindOrCreate(tier.get(), keys);
  CheckChanges(tier.get(), keys);
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_CHECK_TIER_H_
