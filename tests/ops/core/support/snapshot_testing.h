// A table's records as a checkpoint takes them, and as a loader puts them together again.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_SNAPSHOT_TESTING_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_SNAPSHOT_TESTING_H_

#include "ops/core/operations/evict_rows.h"
#include "ops/core/operations/table_snapshot.h"
#include "tests/ops/core/support/check_store.h"
#include "tests/ops/core/support/rule_case.h"
#include "tests/ops/core/support/table_testing.h"

namespace keras_sparse {

constexpr RawSelection kChanged = {true, false};
constexpr RawSelection kUnlinked = {false, true};
constexpr RawSelection kChangedAndUnlinked = {true, true};

// The records of a selection by key, in pieces of about max_rows. Each key comes once.
inline StoredRecords ExportRaw(EmbeddingTable* table, const RawSelection& selection = {},
                               int64_t max_rows = 100) {
  StoredRecords all;
  RawRows piece;
  for (int64_t cursor = 0; cursor >= 0; cursor = piece.next_cursor) {
    const Status status = TableSnapshot(table).Export(selection, cursor, max_rows, &piece);
    EXPECT_TRUE(IsOk(status));
    if (!status.ok()) break;
    const auto width = static_cast<size_t>(piece.record_bytes);
    EXPECT_EQ(piece.records.size(), piece.keys.size() * width);
    for (size_t i = 0; i < piece.keys.size(); ++i) {
      EXPECT_TRUE(
          all.emplace(piece.keys[i], std::string(piece.records.data() + i * width, width)).second)
          << "key " << piece.keys[i] << " came twice";
    }
  }
  return all;
}

// Steps from `first` on, at another rate each, of some of the keys below 60 each: a key that is
// `k` modulo `most_missed` each (k + 1)th step.
inline void TrainSome(EmbeddingTable* table, const RuleCase& rule, int64_t first, int64_t last,
                      int64_t most_missed) {
  for (int64_t step = first; step < last; ++step) {
    std::vector<int64_t> keys;
    for (int64_t key = 0; key < 60; ++key) {
      if ((key * 7 + step) % (key % most_missed + 1) == 0) keys.push_back(key);
    }
    const std::vector<float> grads =
        RandomFloats(static_cast<int64_t>(keys.size()) * table->dim(), static_cast<uint64_t>(step));
    const double rate = 0.05 / (1.0 + static_cast<double>(step % 5));
    ASSERT_TRUE(IsOk(Apply(table, rule.Numbers({step + 1, rate}), keys, grads)));
  }
}

inline std::set<int64_t> KeysOf(const StoredRecords& records) {
  std::set<int64_t> keys;
  for (const auto& [key, record] : records) keys.insert(key);
  return keys;
}

inline Status MarkSaved(EmbeddingTable* table) {
  return TableSnapshot::MarkSaved({table}, {TableSnapshot(table).version()});
}

inline Status EraseRows(EmbeddingTable* table, const std::vector<int64_t>& keys,
                        Executor* executor = Inline()) {
  return EraseRows(table, keys.data(), static_cast<int64_t>(keys.size()), executor);
}

// A checkpoint and those that go on from it.
class SavedTable {
 public:
  // Rows are copied.
  void SaveAll(EmbeddingTable* table) {
    copied_ = ExportRaw(table);
    linked_.clear();
    ASSERT_TRUE(IsOk(MarkSaved(table)));
  }
  void SaveChanges(EmbeddingTable* table) {
    CopyChanges(table, kChanged);
    // Of the last links what has gone or come again counts no more.
    for (const int64_t key : TableSnapshot(table).ErasedKeys()) linked_.erase(key);
    for (const auto& [key, record] : ExportRaw(table, kChanged)) linked_.erase(key);
    ASSERT_TRUE(IsOk(MarkSaved(table)));
  }

  // Rows are linked where they can be: all of these anew, beside the changes.
  void LinkAll(EmbeddingTable* table) {
    Link(table);
    copied_ = ExportRaw(table, kUnlinked);
    ASSERT_TRUE(IsOk(MarkSaved(table)));
  }
  void LinkChanges(EmbeddingTable* table) {
    Link(table);
    CopyChanges(table, kChangedAndUnlinked);
    ASSERT_TRUE(IsOk(MarkSaved(table)));
  }

  // What a loader has in the end: files are read last.
  StoredRecords Load() const {
    StoredRecords all = linked_;
    all.insert(copied_.begin(), copied_.end());
    return all;
  }

 private:
  void CopyChanges(EmbeddingTable* table, const RawSelection& selection) {
    for (const int64_t key : TableSnapshot(table).ErasedKeys()) copied_.erase(key);
    for (const auto& [key, record] : ExportRaw(table, selection, 30)) copied_[key] = record;
  }
  void Link(EmbeddingTable* table) {
    const TempFolder folder;
    std::vector<LinkedFile> files;
    ASSERT_TRUE(IsOk(TableSnapshot(table).LinkFiles(folder / "x-", &files)));
    RawRows rows;
    ASSERT_TRUE(IsOk(TableSnapshot(table).Export({}, -1, 1, &rows)));
    linked_ = ReadLinked(files, rows.record_bytes);
  }

  StoredRecords copied_;
  StoredRecords linked_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_SNAPSHOT_TESTING_H_
