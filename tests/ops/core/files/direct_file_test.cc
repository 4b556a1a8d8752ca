#include "ops/core/files/direct_file.h"

#include <thread>

#include "tests/ops/core/support/faulty_file_system.h"
#include "tests/ops/core/support/temp_folder.h"

namespace keras_sparse::direct_file_test {

// Takes whole blocks alone, as a disk does, on any file system.
class BlockFile : public File {
 public:
  explicit BlockFile(std::unique_ptr<File> file) : file_(std::move(file)) {}
  Status Write(int64_t offset, const char* data, int64_t bytes) override {
    EXPECT_TRUE(AreBlocks(offset, bytes, data));
    return file_->Write(offset, data, bytes);
  }
  Status Read(int64_t offset, int64_t bytes, char* to) const override {
    EXPECT_TRUE(AreBlocks(offset, bytes, to));
    return file_->Read(offset, bytes, to);
  }

 private:
  static bool AreBlocks(int64_t offset, int64_t bytes, const char* data) {
    const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(data));
    return (offset | bytes | address) % DirectFile::kBlockBytes == 0;
  }

  std::unique_ptr<File> file_;
};

std::unique_ptr<File> Create(FileSystem* file_system, const std::string& path) {
  std::unique_ptr<File> blocks;
  EXPECT_TRUE(IsOk(file_system->CreateFile(path, &blocks)));
  return std::make_unique<DirectFile>(std::make_unique<BlockFile>(std::move(blocks)));
}

std::string RandomBytes(size_t n, std::mt19937* random) {
  std::string bytes(n, '\0');
  for (char& byte : bytes) byte = static_cast<char>((*random)());
  return bytes;
}

void ExpectHolds(const File& file, const std::string& bytes, std::mt19937* random) {
  for (int i = 0; i < 50; ++i) {
    const size_t begin = (*random)() % bytes.size();
    const size_t n = (*random)() % (bytes.size() - begin) + 1;
    std::string read(n, '?');
    ASSERT_TRUE(IsOk(file.Read(static_cast<int64_t>(begin), static_cast<int64_t>(n), read.data())));
    ASSERT_EQ(read, bytes.substr(begin, n)) << "from " << begin;
  }
}

TEST(DirectFile, HoldsWhatIsAppendedInPiecesOfAnySize) {
  const TempFolder folder;
  const auto file = Create(FileSystem::Posix(), folder / "file");
  std::mt19937 random(1);
  std::string written;
  for (const size_t n : {64, 1, 4031, 4096, 4095, 2, 100000, 8192, 7, 5000}) {
    const std::string piece = RandomBytes(n, &random);
    ASSERT_TRUE(IsOk(
        file->Write(static_cast<int64_t>(written.size()), piece.data(), static_cast<int64_t>(n))));
    written += piece;
    ExpectHolds(*file, written, &random);
  }
}

TEST(DirectFile, HoldsAPieceThatIsWrittenAgainAfterAFailure) {
  const TempFolder folder;
  FaultyFileSystem file_system;
  const auto file = Create(&file_system, folder / "file");
  std::mt19937 random(2);
  std::string written;
  for (int i = 0; i < 20; ++i) {
    const std::string piece = RandomBytes(random() % 9000, &random);
    const auto offset = static_cast<int64_t>(written.size());
    file_system.writes_left = 0;
    EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "could not write",
                          file->Write(offset, piece.data(), static_cast<int64_t>(piece.size()))));
    file_system.writes_left = INT64_MAX;
    if (!written.empty()) ExpectHolds(*file, written, &random);
    ASSERT_TRUE(IsOk(file->Write(offset, piece.data(), static_cast<int64_t>(piece.size()))));
    written += piece;
    ExpectHolds(*file, written, &random);
  }
}

TEST(DirectFile, TakesAnEarlierPieceAgain) {
  const TempFolder folder;
  const auto file = Create(FileSystem::Posix(), folder / "file");
  std::mt19937 random(3);
  std::string written = RandomBytes(30000, &random);
  ASSERT_TRUE(IsOk(file->Write(0, written.data(), 30000)));
  for (const size_t offset : {29000, 28672, 20000, 4096, 5, 0}) {
    written.resize(offset);
    const std::string piece = RandomBytes(10000, &random);
    ASSERT_TRUE(IsOk(file->Write(static_cast<int64_t>(offset), piece.data(), 10000)));
    written += piece;
    ExpectHolds(*file, written, &random);
  }
}

TEST(DirectFile, SaysWhereItEnds) {
  const TempFolder folder;
  const auto file = Create(FileSystem::Posix(), folder / "file");
  ASSERT_TRUE(IsOk(file->Write(0, "abc", 3)));
  std::string read(10000, '?');
  EXPECT_TRUE(IsOk(file->Read(0, 3, read.data())));
  EXPECT_TRUE(FailsWith(StatusCode::kDataLoss, folder / "file", file->Read(0, 5000, read.data())));
}

TEST(DirectFile, ReadsAndWritesNothingWithoutMemory) {
  const TempFolder folder;
  std::unique_ptr<File> file;
  ASSERT_TRUE(IsOk(FileSystem::Posix()->CreateFile(folder / "file", &file)));
  DirectFile direct(std::move(file));
  std::thread([&] {  // which has had no blocks yet
    EXPECT_TRUE(IsOk(direct.Write(0, nullptr, 0)));
    EXPECT_TRUE(IsOk(direct.Read(0, 0, nullptr)));
  })
      .join();
}

}  // namespace keras_sparse::direct_file_test
