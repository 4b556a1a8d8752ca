#include "ops/core/stores/ssd/ssd_segment.h"

#include "tests/ops/core/support/check_store.h"

namespace keras_sparse::ssd_segment_test {

constexpr int64_t kBytes = 8;
constexpr int64_t kStride = 12 + kBytes;

// A linked segment of entries 0 to 99, whose keys are 1000 more.
class ReadSegmentTest : public ::testing::Test {
 protected:
  ReadSegmentTest() : path_(folder_ / "linked.seg") {
    std::shared_ptr<SsdSegment> segment;
    EXPECT_TRUE(
        IsOk(SsdSegment::Create(FileSystem::Posix(), folder_ / "own.seg", 7, EntryLayout{kBytes},
                                /*direct_io=*/false, &segment)));
    for (int64_t key = 1000; key < 1100; ++key) {
      EXPECT_TRUE(IsOk(segment->Append(key, MakeRecord(key, 1, kBytes).data())));
    }
    EXPECT_TRUE(IsOk(segment->Seal()));
    EXPECT_TRUE(IsOk(segment->Seal())) << "once more does nothing";
    EXPECT_TRUE(segment->is_sealed());
    EXPECT_EQ(segment->memory_bytes(), 0);
    EXPECT_TRUE(IsOk(segment->Link(path_)));
  }

  // Reads `n` entries from `first` on, but for those in [dead, dead_end).
  Status Read(int64_t first, int64_t n, int64_t dead = -1, int64_t dead_end = -1,
              int64_t record_bytes = kBytes) {
    const auto is_alive = std::make_unique<bool[]>(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
      is_alive[static_cast<size_t>(i)] = first + i < dead || first + i >= dead_end;
    }
    keys_.clear();
    records_.clear();
    return ReadSegment(FileSystem::Posix(), path_, record_bytes, first, is_alive.get(), n, &keys_,
                       &records_);
  }

  void ExpectRead(const std::vector<int64_t>& keys) const {
    ASSERT_EQ(keys_, keys);
    std::string expected;
    for (const int64_t key : keys) expected += MakeRecord(key, 1, kBytes);
    ASSERT_EQ(std::string(records_.begin(), records_.end()), expected);
  }

  // The test has all that is left of the segment.
  const TempFolder folder_;
  const std::string path_;
  std::vector<int64_t> keys_;
  std::vector<char> records_;
};

TEST_F(ReadSegmentTest, GivesTheWantedEntriesOfAPiece) {
  EXPECT_EQ(folder_.Contents(), std::set<std::string>{"linked.seg"});
  ASSERT_TRUE(IsOk(Read(0, 100)));
  ExpectRead(Range(1000, 1100));
  ASSERT_TRUE(IsOk(Read(97, 3)));
  ExpectRead({1097, 1098, 1099});
  ASSERT_TRUE(IsOk(Read(10, 5, 11, 13)));
  ExpectRead({1010, 1013, 1014});
  ASSERT_TRUE(IsOk(Read(10, 5, 0, 100)));
  ExpectRead({});
  ASSERT_TRUE(IsOk(Read(100, 0)));
  ExpectRead({});
}

TEST_F(ReadSegmentTest, TellsWhereAWantedEntryIsDamaged) {
  // A bit of its key, of its checksum, of its record.
  const int64_t offset = 64 + 42 * kStride;
  for (const int64_t byte : {int64_t{0}, int64_t{8}, kStride - 1}) {
    FlipByte(path_, offset + byte);
    EXPECT_TRUE(FailsWith(StatusCode::kDataLoss,
                          "the entry at byte " + std::to_string(offset) + " of '" + path_ + "'",
                          Read(0, 100)));
    EXPECT_TRUE(FailsWith(StatusCode::kDataLoss, "byte " + std::to_string(offset), Read(42, 1)));
    // One that nobody wants may be what it likes.
    ASSERT_TRUE(IsOk(Read(40, 5, 42, 43)));
    ExpectRead({1040, 1041, 1043, 1044});
    FlipByte(path_, offset + byte);
    ASSERT_TRUE(IsOk(Read(0, 100)));
  }
}

TEST_F(ReadSegmentTest, TellsWhereAFileHasBeenCutOff) {
  EXPECT_TRUE(FailsWith(StatusCode::kDataLoss, "'" + path_ + "' must have", Read(90, 11)));
  for (const int64_t bytes :
       {64 + 100 * kStride - 1, 64 + 50 * kStride, int64_t{64}, int64_t{63}, int64_t{0}}) {
    std::filesystem::resize_file(path_, static_cast<uintmax_t>(bytes));
    EXPECT_TRUE(FailsWith(StatusCode::kDataLoss, "'" + path_ + "' must have", Read(0, 100)));
    if (bytes < 64 + 50 * kStride) continue;
    ASSERT_TRUE(IsOk(Read(0, 50)));
    ExpectRead(Range(1000, 1050));
  }
}

TEST_F(ReadSegmentTest, RefusesAFileThatIsNoSegmentOfSuchRecords) {
  const std::string words = "'" + path_ + "' must be a segment of version 1 with records of ";
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, words + "12 bytes", Read(0, 50, -1, -1, 12)));
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, words + "4 bytes", Read(0, 50, -1, -1, 4)));
  // Magic, version, size of a record, number, zeros, checksum.
  for (const int64_t byte : {0, 8, 12, 16, 40, 63}) {
    FlipByte(path_, byte);
    EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, words + "8 bytes", Read(0, 1)));
    FlipByte(path_, byte);
  }
  ASSERT_TRUE(IsOk(Read(0, 1)));
}

TEST_F(ReadSegmentTest, SaysThatAFileIsNotThere) {
  std::filesystem::remove(path_);
  EXPECT_TRUE(
      FailsWith(StatusCode::kFailedPrecondition, "could not open '" + path_ + "'", Read(0, 1)));
}

}  // namespace keras_sparse::ssd_segment_test
