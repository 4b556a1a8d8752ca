// A disk below a table that cannot be read or written for a while: the error says where, nothing
// has changed, and the next try works.
#include <iterator>

#include "ops/core/stores/write_back_buffer.h"
#include "tests/ops/core/support/faulty_file_system.h"
#include "tests/ops/core/support/small_store.h"
#include "tests/ops/core/support/snapshot_testing.h"
#include "tests/ops/core/support/table_access.h"

namespace keras_sparse::failing_disk_test {

constexpr int64_t kDim = 8;
constexpr int64_t kRows = 600;
constexpr int64_t kRecordBytes = 2 * 4 * kDim;  // row and accumulator

// Whether changes of the store wait in a queue, as they do in a table of a user.
class FailingDisk : public ::testing::TestWithParam<bool> {
 protected:
  // Rows 0 to 499 on the disk, those from 500 on in memory, and another table that has all there.
  FailingDisk() : table_(OpenWithRule(Dynamic(kDim), AdagradRule(0.1))) {
    auto store = OpenSsd(SsdOf(folder_ / "store", kRecordBytes, 4096, &file_system_));
    if (GetParam()) {
      store = std::make_unique<WriteBackBuffer>(std::move(store), &pool_, int64_t{1} << 20);
    }
    EXPECT_TRUE(IsOk(AddLowerTier(table_.get(), std::move(store))));
    plain_ = OpenWithRule(Dynamic(kDim), AdagradRule(0.1));
    const std::vector<float> grads = RandomFloats(kRows * kDim, 1);
    EXPECT_TRUE(IsOk(ApplyToEach({table_.get(), plain_.get()}, {0.1f}, Range(0, kRows), grads)));
    EXPECT_TRUE(IsOk(Demote(table_.get(), Range(0, 500).data(), 500)));
    EXPECT_EQ(StatsOf(*table_).rows, kRows);  // waits until all is written
  }

  // The bytes of each file of the store.
  std::map<std::string, std::string> Files() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "store")) {
      std::ifstream file(entry.path(), std::ios::binary);
      files[entry.path().string()] = {std::istreambuf_iterator<char>(file), {}};
    }
    return files;
  }

  // The call fails for some reads, naming a place in a file, and changes nothing; then it succeeds.
  template <typename Call>
  void CheckThatFailsAlone(const Call& call) {
    const auto files = Files();
    const Exported rows = ExportAll(*table_);
    const int64_t in_memory = CountInFirstTier(*table_, Range(0, kRows).data(), kRows);
    for (const int64_t reads : {0, 7}) {
      file_system_.reads_left = reads;
      const Status status = call();
      EXPECT_TRUE(FailsWith(StatusCode::kDataLoss, "could not read at byte ", status));
      EXPECT_TRUE(FailsWith(StatusCode::kDataLoss, ".seg'", status));
      EXPECT_TRUE(FailsWith(StatusCode::kDataLoss, folder_ / "store/", status));
      file_system_.reads_left = INT64_MAX;
      EXPECT_EQ(NumRowsOf(*table_), kRows);
      EXPECT_EQ(CountInFirstTier(*table_, Range(0, kRows).data(), kRows), in_memory);
      EXPECT_EQ(ExportAll(*table_), rows);
      EXPECT_EQ(Files(), files);
    }
    EXPECT_TRUE(IsOk(call()));
  }

  const TempFolder folder_;
  FaultyFileSystem file_system_;
  BackgroundPool pool_{1};
  std::unique_ptr<EmbeddingTable> table_;
  std::unique_ptr<EmbeddingTable> plain_;
};

INSTANTIATE_TEST_SUITE_P(Queue, FailingDisk, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "On" : "Off"; });

TEST_P(FailingDisk, FailsALookupThatCanBeTriedAgain) {
  const std::vector<int64_t> ids = RandomIds(300, -50, kRows, 2);
  std::vector<float> rows(ids.size() * kDim);
  CheckThatFailsAlone(
      [&] { return LookupRows({{table_.get(), ids.data(), NoBags(ids), rows.data()}}, Inline()); });
  EXPECT_EQ(Bits(rows), Bits(Lookup(plain_.get(), ids)));
}

TEST_P(FailingDisk, FailsAnUpdateThatCanBeTriedAgain) {
  const std::vector<int64_t> ids = RandomIds(300, 100, kRows - 1, 2);
  const std::vector<float> grads = RandomFloats(300 * kDim, 3);
  CheckThatFailsAlone([&] { return Apply(table_.get(), {0.1f}, ids, grads); });
  ASSERT_TRUE(IsOk(Apply(plain_.get(), {0.1f}, ids, grads)));
  EXPECT_EQ(ExportAll(*table_), ExportAll(*plain_));
}

TEST_P(FailingDisk, FailsAnUpdateOfSeveralTablesAsAWhole) {
  const auto other = OpenWithRule(Dynamic(kDim), AdagradRule(0.1));
  const auto other_plain = OpenWithRule(Dynamic(kDim), AdagradRule(0.1));
  const std::vector<int64_t> ids = RandomIds(300, 0, kRows - 1, 2);
  const std::vector<float> grads = RandomFloats(300 * kDim, 3);
  const auto update = [&](EmbeddingTable* first, EmbeddingTable* second) {
    return ApplyGradients({Request(first, ids, NoBags(ids), grads, {0.1f}),
                           Request(second, ids, NoBags(ids), grads, {0.1f})},
                          Inline());
  };
  CheckThatFailsAlone([&] {
    EXPECT_EQ(NumRowsOf(*other), 0);
    return update(other.get(), table_.get());
  });
  ASSERT_TRUE(IsOk(update(other_plain.get(), plain_.get())));
  EXPECT_EQ(ExportAll(*table_), ExportAll(*plain_));
  EXPECT_EQ(ExportAll(*other), ExportAll(*other_plain));
}

TEST_P(FailingDisk, FailsAnImportThatKeepsSlots) {
  const std::vector<int64_t> ids = RandomIds(300, 0, kRows - 1, 2);
  const std::vector<float> rows = RandomFloats(300 * kDim, 3);
  CheckThatFailsAlone([&] { return ImportAll(table_.get(), ids, rows); });
  ASSERT_TRUE(IsOk(ImportAll(plain_.get(), ids, rows)));
  EXPECT_EQ(ExportAll(*table_), ExportAll(*plain_));
}

TEST_P(FailingDisk, CanBeSavedOnceItCanBeRead) {
  file_system_.reads_left = 0;
  const std::vector<int64_t> ids = Range(0, 100);
  std::vector<float> rows(100 * kDim);
  EXPECT_FALSE(LookupRows({{table_.get(), ids.data(), NoBags(ids), rows.data()}}, Inline()).ok());
  std::vector<LinkedFile> files;
  // What could not be read once is read again before it is saved.
  EXPECT_TRUE(FailsWith(StatusCode::kDataLoss, "could not read at byte ",
                        TableSnapshot(table_.get()).LinkFiles(folder_ / "x-", &files)));
  file_system_.reads_left = INT64_MAX;
  SavedTable saved;
  saved.LinkAll(table_.get());
  EXPECT_EQ(saved.Load(), ExportRaw(table_.get()));
}

TEST_P(FailingDisk, KeepsFilesThatCannotBeRemovedUntilTheTableEnds) {
  file_system_.removals_left = 0;
  for (int64_t step = 0; step < 20; ++step) {
    const std::vector<int64_t> ids = RandomIds(200, 0, kRows - 1, static_cast<uint64_t>(step));
    const std::vector<float> grads = RandomFloats(200 * kDim, static_cast<uint64_t>(step));
    ASSERT_TRUE(IsOk(ApplyToEach({table_.get(), plain_.get()}, {0.1f}, ids, grads)));
    ASSERT_TRUE(IsOk(Demote(table_.get(), Range(0, 500).data(), 500)));
  }
  EXPECT_EQ(ExportAll(*table_), ExportAll(*plain_));
  EXPECT_GT(TierStatsOf(*table_)[1].compacted_bytes, 0);
  int64_t bytes = 0;
  for (const auto& [path, content] : Files()) bytes += static_cast<int64_t>(content.size());
  EXPECT_GT(bytes, 2 * TierStatsOf(*table_)[1].bytes);
  table_.reset();
  EXPECT_TRUE(folder_.Contents().empty());
}

TEST(FailingDiskOpen, NamesWhatFailsAndLeavesNothing) {
  const TempFolder folder;
  FaultyFileSystem file_system;
  SsdHashOptions options = SsdOf(folder / "store", kRecordBytes, 4096, &file_system);
  std::unique_ptr<RowStore> store;
  file_system.folders_left = 0;
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted,
                        "could not make folder '" + options.folder + "'",
                        SsdHashStore::Open(options, &store)));
  file_system.folders_left = INT64_MAX;
  options.direct_io = true;
  file_system.removals_left = 0;  // of the file that is made to see whether there is direct I/O
  EXPECT_FALSE(SsdHashStore::Open(options, &store).ok());
  EXPECT_EQ(store, nullptr);
  EXPECT_TRUE(folder.Contents().empty());
  file_system.removals_left = INT64_MAX;
  options.direct_io = false;
  ASSERT_TRUE(IsOk(SsdHashStore::Open(options, &store)));
  CheckEmptyStore(store.get());
}

TEST(FailingDiskOpen, NamesASegmentThatCannotBeRead) {
  const TempFolder folder;
  FaultyFileSystem file_system;
  auto store = OpenSsd(SsdOf(folder / "store", kRecordBytes, 4096, &file_system));
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 10), 1)));
  std::vector<LinkedFile> files;
  ASSERT_TRUE(IsOk(store->LinkFiles(folder / "x-", &files)));
  ASSERT_EQ(files.size(), 1u);
  const bool is_alive[] = {true, true};
  std::vector<int64_t> keys;
  std::vector<char> records;
  const auto read = [&] {
    return ReadSegment(&file_system, files[0].path, kRecordBytes, 3, is_alive, 2, &keys, &records);
  };
  file_system.opens_left = 0;
  EXPECT_TRUE(
      FailsWith(StatusCode::kFailedPrecondition, "could not open '" + files[0].path + "'", read()));
  file_system.opens_left = INT64_MAX;
  for (const int64_t reads : {0, 1}) {  // its header, its entries
    file_system.reads_left = reads;
    const int64_t byte = reads == 0 ? 0 : 64 + 3 * (kRecordBytes + 12);
    EXPECT_TRUE(FailsWith(
        StatusCode::kDataLoss,
        "could not read at byte " + std::to_string(byte) + " of '" + files[0].path + "'", read()));
    EXPECT_TRUE(keys.empty());
  }
  file_system.reads_left = INT64_MAX;
  ASSERT_TRUE(IsOk(read()));
  EXPECT_EQ(keys, (std::vector<int64_t>{3, 4}));
}

}  // namespace keras_sparse::failing_disk_test
