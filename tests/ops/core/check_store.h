// What every RowStore keeps to; a new one joins with one line in its test.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_CHECK_STORE_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_CHECK_STORE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ops/core/row_store.h"
#include "tests/ops/core/testing.h"
#include "tests/ops/core/thread_executor.h"

namespace keras_sparse {

using OpenStore = std::function<std::unique_ptr<RowStore>(int64_t record_bytes)>;
using StoredRecords = std::map<int64_t, std::string>;

// A record of its own for each (key, version).
inline std::string MakeRecord(int64_t key, int64_t version, int64_t record_bytes) {
  std::mt19937_64 random(static_cast<uint64_t>(key) * 31 + static_cast<uint64_t>(version));
  std::string record;
  for (int64_t i = 0; i < record_bytes; ++i) record.push_back(static_cast<char>(random()));
  return record;
}

inline std::vector<int64_t> Range(int64_t first, int64_t last) {
  std::vector<int64_t> keys;
  for (int64_t key = first; key < last; ++key) keys.push_back(key);
  return keys;
}

inline StoredRecords Records(const std::vector<int64_t>& keys, int64_t version,
                             int64_t record_bytes) {
  StoredRecords records;
  for (const int64_t key : keys) records[key] = MakeRecord(key, version, record_bytes);
  return records;
}

inline Status PutRecords(RowStore* store, const std::vector<int64_t>& keys, int64_t version) {
  std::string records;
  for (const int64_t key : keys) records += MakeRecord(key, version, store->record_bytes());
  return store->Put(keys.data(), static_cast<int64_t>(keys.size()), records.data());
}

inline StoredRecords WalkStore(const RowStore& store, int64_t max_rows) {
  StoredRecords all;
  const auto record_bytes = static_cast<size_t>(store.record_bytes());
  for (int64_t cursor = 0; cursor >= 0;) {
    std::vector<int64_t> keys;
    std::vector<char> records;
    EXPECT_TRUE(IsOk(store.Walk(cursor, max_rows, &keys, &records, &cursor)));
    EXPECT_EQ(records.size(), keys.size() * record_bytes);
    for (size_t i = 0; i < keys.size(); ++i) {
      const std::string record(records.data() + i * record_bytes, record_bytes);
      EXPECT_TRUE(all.emplace(keys[i], record).second) << keys[i] << " came twice";
    }
  }
  return all;
}

// Gets these keys and compares them with what ought to be there.
inline void ExpectStored(const RowStore& store, const std::vector<int64_t>& keys,
                         const StoredRecords& expected) {
  const auto record_bytes = static_cast<size_t>(store.record_bytes());
  std::string records(keys.size() * record_bytes, '?');
  const std::unique_ptr<bool[]> found(new bool[keys.size()]);
  store.Contains(keys.data(), static_cast<int64_t>(keys.size()), found.get());
  for (size_t i = 0; i < keys.size(); ++i) ASSERT_EQ(found[i], expected.count(keys[i]) > 0);
  ASSERT_TRUE(
      IsOk(store.Get(keys.data(), static_cast<int64_t>(keys.size()), records.data(), found.get())));
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto at = expected.find(keys[i]);
    ASSERT_EQ(found[i], at != expected.end()) << "key " << keys[i];
    const std::string untouched(record_bytes, '?');
    ASSERT_EQ(records.substr(i * record_bytes, record_bytes), found[i] ? at->second : untouched);
  }
}

inline void CheckEmptyStore(RowStore* store) {
  EXPECT_EQ(store->num_rows(), 0);
  EXPECT_TRUE(WalkStore(*store, 10).empty());
  ExpectStored(*store, ExtremeKeys(), {});
  EXPECT_TRUE(IsOk(store->Put(nullptr, 0, nullptr)));
  EXPECT_TRUE(IsOk(store->Get(nullptr, 0, nullptr, nullptr)));
  EXPECT_TRUE(IsOk(store->Erase(ExtremeKeys().data(), 5)));
}

// Random puts and erasures, in batches with repeats, against a map.
inline void CheckStoreAgainstAMap(RowStore* store) {
  StoredRecords expected;
  for (int64_t batch = 0; batch < 40; ++batch) {
    std::vector<int64_t> keys = RandomIds(200, -400, 400, static_cast<uint64_t>(batch));
    if (batch == 7) keys = ExtremeKeys();
    if (batch % 3 == 2) {
      ASSERT_TRUE(IsOk(store->Erase(keys.data(), 100)));
      for (size_t i = 0; i < 100; ++i) expected.erase(keys[i]);
    } else {
      ASSERT_TRUE(IsOk(PutRecords(store, keys, batch)));
      for (const int64_t key : keys) expected[key] = MakeRecord(key, batch, store->record_bytes());
    }
    ASSERT_EQ(store->num_rows(), static_cast<int64_t>(expected.size()));
    ExpectStored(*store, RandomIds(300, -500, 500, 99), expected);
  }
  for (const int64_t max_rows : {1, 7, 100000}) EXPECT_EQ(WalkStore(*store, max_rows), expected);
  EXPECT_GE(store->bytes(), static_cast<int64_t>(expected.size()) * store->record_bytes());

  ThreadExecutor executor(4);  // const calls may overlap
  executor.ParallelFor(50, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      ExpectStored(*store, RandomIds(50, -500, 500, static_cast<uint64_t>(i)), expected);
    }
  });
}

inline void CheckStore(const OpenStore& open) {
  for (const int64_t record_bytes : {4, 12, 36, 6000}) {
    const std::unique_ptr<RowStore> store = open(record_bytes);
    ASSERT_NE(store, nullptr);
    EXPECT_EQ(store->record_bytes(), record_bytes);
    EXPECT_STRNE(store->tier(), "");
    CheckEmptyStore(store.get());
    CheckStoreAgainstAMap(store.get());

    // Of a repeated key the last record stays.
    const std::string twice = MakeRecord(1, 1, record_bytes) + MakeRecord(1, 2, record_bytes);
    const std::vector<int64_t> same = {1, 1};
    ASSERT_TRUE(IsOk(store->Put(same.data(), 2, twice.data())));
    ExpectStored(*store, same, {{1, MakeRecord(1, 2, record_bytes)}});

    ASSERT_TRUE(IsOk(store->Clear()));
    CheckEmptyStore(store.get());
    ASSERT_TRUE(IsOk(PutRecords(store.get(), {5}, 3)));
    ExpectStored(*store, {5, 6}, {{5, MakeRecord(5, 3, record_bytes)}});
  }
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_CHECK_STORE_H_
