// What every RowStore keeps to; a new one joins with one line in its test.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_CHECK_STORE_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_CHECK_STORE_H_

#include <array>
#include <map>

#include "ops/core/base/hash.h"
#include "ops/core/files/file_system.h"
#include "ops/core/stores/row_store.h"
#include "ops/core/stores/ssd/ssd_segment.h"
#include "tests/ops/core/support/temp_folder.h"
#include "tests/ops/core/support/thread_executor.h"

namespace keras_sparse {

using OpenStore = std::function<std::unique_ptr<RowStore>(int64_t record_bytes)>;
using StoredRecords = std::map<int64_t, std::string>;

// A record of its own for each (key, version).
inline std::string MakeRecord(int64_t key, int64_t version, int64_t record_bytes) {
  std::string record(static_cast<size_t>(record_bytes), '\0');
  // Knuth's congruential generator, for tests make many of them.
  uint64_t state = HashKey(key) * 31 + static_cast<uint64_t>(version);
  for (size_t i = 0; i < record.size(); i += 4) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const auto word = static_cast<uint32_t>(state >> 32);
    std::memcpy(&record[i], &word, std::min<size_t>(4, record.size() - i));
  }
  return record;
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

// Walk, or WalkUnlinked.
using StoreWalk = Status (RowStore::*)(int64_t, int64_t, std::vector<int64_t>*, std::vector<char>*,
                                       int64_t*) const;

inline StoredRecords WalkStore(const RowStore& store, int64_t max_rows,
                               StoreWalk walk = &RowStore::Walk) {
  StoredRecords all;
  const auto record_bytes = static_cast<size_t>(store.record_bytes());
  for (int64_t cursor = 0; cursor >= 0;) {
    std::vector<int64_t> keys;
    std::vector<char> records;
    const Status status = (store.*walk)(cursor, max_rows, &keys, &records, &cursor);
    EXPECT_TRUE(IsOk(status));
    if (!status.ok()) break;
    EXPECT_EQ(records.size(), keys.size() * record_bytes);
    for (size_t i = 0; i < keys.size(); ++i) {
      const std::string record(records.data() + i * record_bytes, record_bytes);
      EXPECT_TRUE(all.emplace(keys[i], record).second) << keys[i] << " came twice";
    }
  }
  return all;
}

inline bool IsAlive(const LinkedFile& file, int64_t entry) {
  return (file.alive[static_cast<size_t>(entry / 8)] >> (entry % 8) & 1) != 0;
}

// The rows in files that a store has linked, each once.
inline StoredRecords ReadLinked(const std::vector<LinkedFile>& files, int64_t record_bytes) {
  constexpr int64_t kPiece = 50;
  const auto width = static_cast<size_t>(record_bytes);
  StoredRecords all;
  for (const LinkedFile& file : files) {
    const auto num_bits = static_cast<int64_t>(8 * file.alive.size());
    EXPECT_EQ(num_bits, (file.num_entries + 7) / 8 * 8) << file.path;
    for (int64_t entry = file.num_entries; entry < num_bits; ++entry) {
      EXPECT_FALSE(IsAlive(file, entry)) << file.path;
    }
    for (int64_t first = 0; first < file.num_entries; first += kPiece) {
      const int64_t n = std::min(kPiece, file.num_entries - first);
      std::array<bool, kPiece> is_alive;
      for (int64_t i = 0; i < n; ++i) is_alive[static_cast<size_t>(i)] = IsAlive(file, first + i);
      std::vector<int64_t> keys;
      std::vector<char> records;
      EXPECT_TRUE(IsOk(ReadSegment(FileSystem::Posix(), file.path, record_bytes, first,
                                   is_alive.data(), n, &keys, &records)));
      EXPECT_EQ(records.size(), keys.size() * width);
      for (size_t i = 0; i < keys.size(); ++i) {
        EXPECT_TRUE(all.emplace(keys[i], std::string(records.data() + i * width, width)).second)
            << keys[i] << " came twice";
      }
    }
  }
  return all;
}

// All rows as a checkpoint takes them: linked, and copied where a store does not link them.
inline StoredRecords LinkStore(RowStore* store, const std::string& path_prefix,
                               std::vector<LinkedFile>* files) {
  EXPECT_TRUE(IsOk(store->LinkFiles(path_prefix, files)));
  for (const LinkedFile& file : *files) EXPECT_EQ(file.path.find(path_prefix), 0u);
  StoredRecords all = WalkStore(*store, 30, &RowStore::WalkUnlinked);
  EXPECT_TRUE(all.empty() || !store->links_all());
  const StoredRecords linked = ReadLinked(*files, store->record_bytes());
  for (const auto& [key, record] : linked) {
    EXPECT_TRUE(all.emplace(key, record).second) << key << " is linked and walked";
  }
  return all;
}

// Gets these keys and compares them with what ought to be there.
inline void ExpectStored(const RowStore& store, const std::vector<int64_t>& keys,
                         const StoredRecords& expected) {
  const auto record_bytes = static_cast<size_t>(store.record_bytes());
  const std::string untouched(record_bytes, '?');
  std::string records(keys.size() * record_bytes, '?');
  const std::unique_ptr<bool[]> found(new bool[keys.size()]);
  store.Contains(keys.data(), static_cast<int64_t>(keys.size()), found.get());
  for (size_t i = 0; i < keys.size(); ++i) ASSERT_EQ(found[i], expected.count(keys[i]) > 0);
  ASSERT_TRUE(
      IsOk(store.Get(keys.data(), static_cast<int64_t>(keys.size()), records.data(), found.get())));
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto at = expected.find(keys[i]);
    ASSERT_EQ(found[i], at != expected.end()) << "key " << keys[i];
    ASSERT_EQ(records.substr(i * record_bytes, record_bytes), found[i] ? at->second : untouched);
  }
}

// The record of `key`, which is at `offset` of a file, is an error while any byte of its entry is
// another one: of its key, of its checksum, of its record. Those beside it can be read.
inline void CheckDamagedEntry(RowStore* store, int64_t key, const std::string& path,
                              int64_t offset) {
  const int64_t record_bytes = store->record_bytes();
  for (const int64_t byte : {3, 9, 60}) {
    FlipByte(path, offset + byte);
    const int64_t keys[] = {key - 1, key};
    std::string records(static_cast<size_t>(2 * record_bytes), '?');
    bool found[2];
    EXPECT_TRUE(FailsWith(StatusCode::kDataLoss,
                          "the entry at byte " + std::to_string(offset) + " of '" + path + "'",
                          store->Get(keys, 2, records.data(), found)));
    ExpectStored(*store, {key - 1, key + 1}, Records({key - 1, key + 1}, 1, record_bytes));
    FlipByte(path, offset + byte);
    ExpectStored(*store, {key}, Records({key}, 1, record_bytes));
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

// Random puts and erasures, in batches with repeats, against a map. Files are linked to a folder.
inline void CheckStoreAgainstAMap(RowStore* store, const TempFolder& links) {
  // A store may give a large record a file of its own.
  const int64_t batch_size = store->record_bytes() < 1000 ? 200 : 50;
  StoredRecords expected;
  for (int64_t batch = 0; batch < 40; ++batch) {
    std::vector<int64_t> keys =
        RandomIds(batch_size, -2 * batch_size, 2 * batch_size, static_cast<uint64_t>(batch));
    if (batch == 7) keys = ExtremeKeys();
    if (batch % 3 == 2) {
      keys.resize(static_cast<size_t>(batch_size / 2));
      ASSERT_TRUE(IsOk(store->Erase(keys.data(), batch_size / 2)));
      for (const int64_t key : keys) expected.erase(key);
    } else {
      ASSERT_TRUE(IsOk(PutRecords(store, keys, batch)));
      for (const int64_t key : keys) expected[key] = MakeRecord(key, batch, store->record_bytes());
    }
    ASSERT_EQ(store->num_rows(), static_cast<int64_t>(expected.size()));
    ExpectStored(*store, RandomIds(300, -500, 500, 99), expected);
    if (batch % 8 == 4) {
      std::vector<LinkedFile> files;
      ASSERT_EQ(LinkStore(store, links / (std::to_string(batch) + "-"), &files), expected);
    }
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
    const TempFolder links;
    CheckStoreAgainstAMap(store.get(), links);
    // What is linked stays, whatever becomes of the store.
    std::vector<LinkedFile> files;
    (void)LinkStore(store.get(), links / "last-", &files);
    const StoredRecords linked = ReadLinked(files, record_bytes);

    // Of a repeated key the last record stays.
    const std::string twice = MakeRecord(1, 1, record_bytes) + MakeRecord(1, 2, record_bytes);
    const std::vector<int64_t> same = {1, 1};
    ASSERT_TRUE(IsOk(store->Put(same.data(), 2, twice.data())));
    ExpectStored(*store, same, {{1, MakeRecord(1, 2, record_bytes)}});

    ASSERT_TRUE(IsOk(store->Clear()));
    CheckEmptyStore(store.get());
    EXPECT_EQ(ReadLinked(files, record_bytes), linked);
    files.clear();
    EXPECT_TRUE(LinkStore(store.get(), links / "empty-", &files).empty());
    EXPECT_TRUE(files.empty());
    ASSERT_TRUE(IsOk(PutRecords(store.get(), {5}, 3)));
    ExpectStored(*store, {5, 6}, {{5, MakeRecord(5, 3, record_bytes)}});
  }
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_CHECK_STORE_H_
