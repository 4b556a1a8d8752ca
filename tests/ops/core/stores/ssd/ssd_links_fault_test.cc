// Links of segments that cannot be made, or had better not be.
#include <sys/stat.h>

#include "tests/ops/core/support/check_store.h"
#include "tests/ops/core/support/faulty_file_system.h"
#include "tests/ops/core/support/small_store.h"

namespace keras_sparse::ssd_links_fault_test {

TEST(SsdLinks, FailWhereThePathIsTakenAndLeaveThatFile) {
  const TempFolder folder;
  const auto store = OpenLinked(folder / "store");
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 20), 1)));
  std::vector<LinkedFile> files;
  const StoredRecords linked = LinkStore(store.get(), folder / "x-", &files);
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 300), 2)));
  std::vector<LinkedFile> others;
  EXPECT_TRUE(IsOk(store->LinkFiles(folder / "x-", &others))) << "that segment has gone";
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "to '" + (folder / "x-") + "0",
                        store->LinkFiles(folder / "x-", &others)));
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "could not link",
                        store->LinkFiles(folder / "none/x-", &others)));
  EXPECT_EQ(ReadLinked(files, kBytes), linked);
  EXPECT_EQ(WalkStore(*store, 100), Records(Range(0, 300), 2, kBytes));
}

TEST(SsdLinks, FailOnAnotherFileSystem) {
  const TempFolder folder;
  struct stat here;
  struct stat there;
  if (::stat("/dev/shm", &there) != 0 || ::stat(folder.path().c_str(), &here) != 0 ||
      here.st_dev == there.st_dev) {
    GTEST_SKIP() << "there is one file system";
  }
  const auto store = OpenLinked(folder / "store");
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 20), 1)));
  std::vector<LinkedFile> files;
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition,
                        "could not link '" + (folder / "store/000000.seg") + "' to '/dev/shm/",
                        store->LinkFiles("/dev/shm/keras_sparse-test-", &files)));
  EXPECT_EQ(WalkStore(*store, 100), Records(Range(0, 20), 1, kBytes));
}

TEST(SsdLinks, FailWithTheDiskAndLeaveTheStoreAsItWas) {
  const TempFolder folder;
  FaultyFileSystem file_system;
  const auto store = OpenLinked(folder / "store", &file_system);
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 250), 1)));
  const StoredRecords expected = Records(Range(0, 250), 1, kBytes);
  std::vector<LinkedFile> files;
  file_system.writes_left = 0;  // the newest segment cannot be written out
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "could not write",
                        store->LinkFiles(folder / "a-", &files)));
  EXPECT_EQ(folder.Contents().count("a-000000.seg"), 0u);
  EXPECT_EQ(WalkStore(*store, 100), expected);
  file_system.writes_left = INT64_MAX;
  file_system.links_left = 1;
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "could not link",
                        store->LinkFiles(folder / "b-", &files)));
  EXPECT_EQ(WalkStore(*store, 100), expected);
  file_system.links_left = INT64_MAX;
  file_system.writes_left = 0;  // what is sealed needs no writing
  files.clear();
  EXPECT_EQ(LinkStore(store.get(), folder / "c-", &files), expected);
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "could not write",
                        PutRecords(store.get(), Range(0, 10), 2)));
  file_system.writes_left = INT64_MAX;
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(250, 260), 1)));
  files.clear();
  EXPECT_EQ(LinkStore(store.get(), folder / "d-", &files), Records(Range(0, 260), 1, kBytes));
}

TEST(SsdLinks, FailWhereARowCouldNotBeReadUntilItIsReplaced) {
  const TempFolder folder;
  const auto store = OpenLinked(folder / "store");
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 250), 1)));
  const int64_t byte = 64 + 42 * kStride + 60;
  FlipByte(folder / "store/000000.seg", byte);
  // Nobody has met the damage so far, and links are made without reading.
  std::vector<LinkedFile> files;
  ASSERT_TRUE(IsOk(store->LinkFiles(folder / "a-", &files)));
  const std::vector<int64_t> keys = Range(40, 45);
  std::string records(5 * kBytes, '?');
  bool found[5];
  const auto get = [&] { return store->Get(keys.data(), 5, records.data(), found); };
  const auto link = [&](const std::string& prefix) {
    files.clear();
    return store->LinkFiles(folder / prefix, &files);
  };
  EXPECT_EQ(get().code(), StatusCode::kDataLoss);
  EXPECT_TRUE(FailsWith(StatusCode::kDataLoss,
                        "rows must be read to be saved; go on from the last checkpoint. Received: "
                        "the entry at byte " +
                            std::to_string(byte - 60) + " of '" + (folder / "store/000000.seg"),
                        link("b-")));
  // What was a failure of the moment is none.
  FlipByte(folder / "store/000000.seg", byte);
  EXPECT_TRUE(IsOk(link("c-")));
  FlipByte(folder / "store/000000.seg", byte);
  EXPECT_EQ(link("d-").code(), StatusCode::kDataLoss);
  ASSERT_TRUE(IsOk(PutRecords(store.get(), {42}, 2)));
  EXPECT_TRUE(IsOk(link("e-")));
  EXPECT_TRUE(IsOk(get()));
}

}  // namespace keras_sparse::ssd_links_fault_test
