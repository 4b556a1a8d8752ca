// What Compact of every RowStore keeps to; check_store.h has the rest of the contract.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_CHECK_COMPACT_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_CHECK_COMPACT_H_

#include <iterator>
#include <unordered_set>

#include "tests/ops/core/support/check_store.h"

namespace keras_sparse {

// Records that a store has no more.
class GoneRecords {
 public:
  void Add(const std::string& record) {
    for (size_t i = 0; i + kBytes <= record.size(); i += 4) words_.insert(Word(&record[i]));
  }

  // How many places in the files of a folder have 8 bytes of one of them.
  int64_t CountIn(const TempFolder& folder) const {
    int64_t count = 0;
    for (const std::string& name : folder.Contents()) {
      if (!std::filesystem::is_regular_file(folder / name)) continue;
      std::ifstream file(folder / name, std::ios::binary);
      const std::string bytes((std::istreambuf_iterator<char>(file)), {});
      for (size_t i = 0; i + kBytes <= bytes.size(); ++i) count += words_.count(Word(&bytes[i]));
    }
    return count;
  }

 private:
  static constexpr size_t kBytes = sizeof(uint64_t);
  static uint64_t Word(const char* bytes) {
    uint64_t word;
    std::memcpy(&word, bytes, kBytes);
    return word;
  }

  std::unordered_set<uint64_t> words_;
};

// A store beside what it holds, and what it has held.
class TrackedStore {
 public:
  explicit TrackedStore(RowStore* store) : store_(store) {}

  void Put(const std::vector<int64_t>& keys, int64_t version) {
    ASSERT_TRUE(IsOk(PutRecords(store_, keys, version)));
    for (const int64_t key : keys) {
      const std::string record = MakeRecord(key, version, store_->record_bytes());
      std::string& held = held_[key];
      if (held != record) gone_.Add(held);
      held = record;
    }
  }
  void Erase(const std::vector<int64_t>& keys) {
    ASSERT_TRUE(IsOk(store_->Erase(keys.data(), static_cast<int64_t>(keys.size()))));
    for (const int64_t key : keys) {
      const auto at = held_.find(key);
      if (at == held_.end()) continue;
      gone_.Add(at->second);
      held_.erase(at);
    }
  }
  // A put or an erasure of random keys, some of them twice.
  void ChangeSome(int64_t version) {
    const std::vector<int64_t> keys = RandomIds(200, -150, 150, static_cast<uint64_t>(version));
    if (version % 3 == 2) {
      Erase(std::vector<int64_t>(keys.begin(), keys.begin() + 120));
    } else {
      Put(keys, version);
    }
  }

  RowStore* store() const { return store_; }
  const StoredRecords& held() const { return held_; }
  const GoneRecords& gone() const { return gone_; }

 private:
  RowStore* store_;
  StoredRecords held_;
  GoneRecords gone_;
};

// Compacts a store whose files are in `folder` between random changes, and links it to `links`. A
// store in memory has no files.
inline void CheckCompact(RowStore* store, const TempFolder& folder, const TempFolder& links,
                         bool has_files = true) {
  TrackedStore tracked(store);
  int64_t num_traces = 0;
  ASSERT_TRUE(IsOk(store->Compact()));
  for (int64_t version = 0; version < 40; ++version) {
    tracked.ChangeSome(version);
    std::vector<LinkedFile> files;
    if (version % 7 == 3) {
      ASSERT_EQ(LinkStore(store, links / (std::to_string(version) + "-"), &files), tracked.held());
    }
    if (version % 4 != 3) continue;
    const StoredRecords linked = ReadLinked(files, store->record_bytes());
    num_traces += tracked.gone().CountIn(folder);
    for (int64_t i = 0; i < 2; ++i) {
      ASSERT_TRUE(IsOk(store->Compact()));
      ASSERT_EQ(tracked.gone().CountIn(folder), 0) << version;
      ASSERT_EQ(WalkStore(*store, 100), tracked.held());
    }
    ASSERT_EQ(ReadLinked(files, store->record_bytes()), linked) << "what is linked stays";
  }
  ASSERT_EQ(num_traces > 0, has_files) << "there was something to compact";
  std::vector<int64_t> all;
  for (const auto& [key, record] : tracked.held()) all.push_back(key);
  tracked.Erase(all);
  ASSERT_TRUE(IsOk(store->Compact()));
  ASSERT_EQ(tracked.gone().CountIn(folder), 0) << "of a store without rows";
  ASSERT_EQ(store->num_rows(), 0);
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_CHECK_COMPACT_H_
