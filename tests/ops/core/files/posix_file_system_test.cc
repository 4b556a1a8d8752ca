#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <numeric>

#include "ops/core/files/file_system.h"
#include "tests/ops/core/support/temp_folder.h"
#include "tests/ops/core/support/thread_executor.h"

namespace keras_sparse::posix_file_system_test {

FileSystem* const kEnv = FileSystem::Posix();

std::unique_ptr<File> Create(const std::string& path) {
  std::unique_ptr<File> file;
  EXPECT_TRUE(IsOk(kEnv->CreateFile(path, &file)));
  return file;
}

TEST(PosixFileSystem, ReadsWhatWasWritten) {
  const TempFolder folder;
  const auto file = Create(folder / "a");
  ASSERT_TRUE(IsOk(file->Write(0, "hello world", 11)));
  ASSERT_TRUE(IsOk(file->Write(6, "there", 5)));
  std::string text(11, '?');
  ASSERT_TRUE(IsOk(file->Read(0, 11, text.data())));
  EXPECT_EQ(text, "hello there");
  ASSERT_TRUE(IsOk(file->Read(11, 0, text.data())));
}

TEST(PosixFileSystem, SaysWhereAFileEnds) {
  const TempFolder folder;
  const auto file = Create(folder / "short");
  ASSERT_TRUE(IsOk(file->Write(0, "12345", 5)));
  std::string text(8, '?');
  EXPECT_TRUE(FailsWith(StatusCode::kDataLoss,
                        "'" + (folder / "short") + "' must have 8 bytes from byte 3. Received: 2",
                        file->Read(3, 8, text.data())));
}

TEST(PosixFileSystem, GivesAFileASecondName) {
  const TempFolder folder;
  const auto file = Create(folder / "a");
  ASSERT_TRUE(IsOk(file->Write(0, "12345", 5)));
  ASSERT_TRUE(IsOk(kEnv->LinkFile(folder / "a", folder / "b")));
  ASSERT_TRUE(IsOk(kEnv->RemoveFile(folder / "a")));
  std::unique_ptr<File> linked;
  ASSERT_TRUE(IsOk(kEnv->OpenFile(folder / "b", &linked)));
  std::string text(5, '?');
  ASSERT_TRUE(IsOk(linked->Read(0, 5, text.data())));
  EXPECT_EQ(text, "12345");
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "could not write at byte 0 of",
                        linked->Write(0, "x", 1)))
      << "what is opened is to be read";
  // A name that is taken stays what it is.
  (void)Create(folder / "c");
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition,
                        "could not link '" + (folder / "c") + "' to '" + (folder / "b") + "'",
                        kEnv->LinkFile(folder / "c", folder / "b")));
  ASSERT_TRUE(IsOk(linked->Read(0, 5, text.data())));
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "could not link",
                        kEnv->LinkFile(folder / "none", folder / "d")));
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "could not open '" + (folder / "a") + "'",
                        kEnv->OpenFile(folder / "a", &linked)));
}

TEST(PosixFileSystem, NamesThePathOfWhatFails) {
  const TempFolder folder;
  std::unique_ptr<File> file;
  const std::string missing = folder / "no/such/folder/file";
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition,
                        "could not create '" + missing + "': No such file",
                        kEnv->CreateFile(missing, &file)));
  Create(folder / "taken");
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "File exists",
                        kEnv->CreateFile(folder / "taken", &file)));
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "could not make folder",
                        kEnv->MakeFolder(folder / "taken/below")));
  std::vector<std::string> names;
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "could not list",
                        kEnv->List(folder / "missing", &names)));
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "could not remove",
                        kEnv->RemoveFile(folder / "missing")));
}

TEST(PosixFileSystem, MakesAndRemovesFolders) {
  const TempFolder folder;
  ASSERT_TRUE(IsOk(kEnv->MakeFolder(folder / "a/b/c")));
  ASSERT_TRUE(IsOk(kEnv->MakeFolder(folder / "a/b/c")));
  Create(folder / "a/b/file");
  std::vector<std::string> names;
  ASSERT_TRUE(IsOk(kEnv->List(folder / "a/b", &names)));
  EXPECT_EQ(names, (std::vector<std::string>{"c", "file"}));
  EXPECT_FALSE(kEnv->RemoveEmptyFolder(folder / "a").ok());
  ASSERT_TRUE(IsOk(kEnv->RemoveFolder(folder / "a")));
  ASSERT_TRUE(IsOk(kEnv->RemoveFolder(folder / "a")));
  EXPECT_TRUE(folder.Contents().empty());
}

TEST(PosixFileSystem, ReadsThousandsAtOnceFromSeveralThreads) {
  const TempFolder folder;
  const auto file = Create(folder / "numbers");
  std::vector<int64_t> numbers(20000);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int64_t>(i * i);
  ASSERT_TRUE(IsOk(file->Write(0, reinterpret_cast<const char*>(numbers.data()), 8 * 20000)));
  InThreads(uint64_t{3}, [&](uint64_t seed) {
    for (const int64_t n : {0, 1, 7, 8, 9, 100, 5000}) {
      const std::vector<int64_t> places = RandomIds(n, 0, 19999, seed);
      std::vector<int64_t> read(static_cast<size_t>(n));
      EXPECT_TRUE(IsOk(kEnv->ReadMany(places.size(), [&](size_t i) {
        return file->Read(8 * places[i], 8, reinterpret_cast<char*>(&read[i]));
      })));
      for (size_t i = 0; i < places.size(); ++i) EXPECT_EQ(read[i], places[i] * places[i]);
    }
  });
}

TEST(PosixFileSystem, ReportsTheFirstOfManyReadsThatFails) {
  const TempFolder folder;
  const auto file = Create(folder / "file");
  ASSERT_TRUE(IsOk(file->Write(0, std::string(1000, 'x').data(), 1000)));
  std::string to(1000, '?');
  std::vector<int64_t> offsets(1000);
  std::iota(offsets.begin(), offsets.end(), 0);
  offsets[300] = 7000;
  offsets[700] = 9000;
  EXPECT_TRUE(
      FailsWith(StatusCode::kDataLoss, "from byte 7000",
                kEnv->ReadMany(1000, [&](size_t i) { return file->Read(offsets[i], 1, &to[i]); })));
  EXPECT_EQ(std::count(to.begin(), to.end(), 'x'), 998) << "the others are read all the same";
}

TEST(PosixFileSystem, DoesNotTakeALockOnAFileThatIsGone) {
  // Threads stand for processes: a lock belongs to the open file.
  const TempFolder folder;
  const std::string path = folder / "lock";
  std::atomic<int> holders{0};
  InThreads(4, [&](int /*t*/) {
    for (int i = 0; i < 3000; ++i) {
      std::unique_ptr<FileSystem::Lock> lock;
      if (!kEnv->LockFile(path, &lock).ok()) continue;
      EXPECT_EQ(holders.fetch_add(1), 0);
      holders.fetch_sub(1);
      EXPECT_TRUE(IsOk(kEnv->RemoveFile(path)));
    }
  });
}

TEST(PosixFileSystem, LocksAFileAgainstOtherProcesses) {
  const TempFolder folder;
  const std::string path = folder / "lock";
  std::unique_ptr<FileSystem::Lock> lock;
  ASSERT_TRUE(IsOk(kEnv->LockFile(path, &lock)));
  const auto other_process_gets_it = [&path] {
    const pid_t child = ::fork();
    if (child == 0) {
      std::unique_ptr<FileSystem::Lock> theirs;
      const Status status = FileSystem::Posix()->LockFile(path, &theirs);
      const bool is_told = status.message().find("another has it") != std::string::npos;
      ::_exit(status.ok() ? 1 : is_told ? 0 : 2);
    }
    int state = 0;
    ::waitpid(child, &state, 0);
    return WEXITSTATUS(state);
  };
  EXPECT_EQ(other_process_gets_it(), 0);
  lock.reset();
  EXPECT_EQ(other_process_gets_it(), 1);
}

TEST(PosixFileSystem, SaysThatADirectFileMayNotBeLonger) {
  const TempFolder folder;
  std::unique_ptr<File> file;
  const Status made = kEnv->CreateDirectFile(folder / "file", &file);
  if (!made.ok()) GTEST_SKIP() << made.message();
  (void)std::signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit limit = before;
  for (const rlim_t bytes : {20480, 20000}) {  // the second as in tests/storage/faults_test.py
    limit.rlim_cur = bytes;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    const std::string data(100000, 'x');
    const Status status = file->Write(0, data.data(), 100000);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "File too large", status)) << bytes;
  }
}

}  // namespace keras_sparse::posix_file_system_test
