#include "ops/core/files/storage_folder.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "tests/ops/core/support/faulty_file_system.h"
#include "tests/ops/core/support/temp_folder.h"

namespace keras_sparse::storage_folder_test {

using Contents = std::set<std::string>;

Status Make(const std::string& path, std::unique_ptr<StorageFolder>* folder) {
  return StorageFolder::Make(FileSystem::Posix(), path, folder);
}

// What is there while a path has one table.
Contents OneTable(const std::string& path, const std::string& number) {
  return {path + "keras_sparse.lock", path + "keras_sparse.own-" + number,
          path + "keras_sparse-table-" + number};
}

TEST(StorageFolder, GivesEachTableAFolderAndLeavesNothing) {
  const TempFolder temp;
  std::unique_ptr<StorageFolder> first;
  std::unique_ptr<StorageFolder> second;
  ASSERT_TRUE(IsOk(Make(temp / "ssd/rows", &first)));
  ASSERT_TRUE(IsOk(Make(temp / "ssd/../ssd/rows", &second)));
  EXPECT_EQ(first->path(), temp / "ssd/rows/keras_sparse-table-000000");
  EXPECT_EQ(second->path(), temp / "ssd/rows/keras_sparse-table-000001");
  std::ofstream(second->path() + "/file") << "rows";
  second.reset();
  Contents expected = OneTable("ssd/rows/", "000000");
  expected.insert({"ssd", "ssd/rows"});
  EXPECT_EQ(temp.Contents(), expected);
  ASSERT_TRUE(IsOk(Make(temp / "ssd/rows", &second)));
  EXPECT_EQ(second->path(), temp / "ssd/rows/keras_sparse-table-000002");
  first.reset();
  second.reset();
  EXPECT_EQ(temp.Contents(), Contents{"ssd"});
}

TEST(StorageFolder, LeavesWhatIsNotItsOwn) {
  const TempFolder temp;
  std::ofstream(temp / "mine") << "text";
  std::filesystem::create_directory(temp / "table-000000");
  std::filesystem::create_directory(temp / "empty");
  std::ofstream(temp / "keras_sparse-table-000000.csv") << "text";
  std::unique_ptr<StorageFolder> folder;
  ASSERT_TRUE(IsOk(Make(temp.path(), &folder)));
  folder.reset();
  EXPECT_EQ(temp.Contents(),
            (Contents{"mine", "table-000000", "empty", "keras_sparse-table-000000.csv"}));
  ASSERT_TRUE(IsOk(Make(temp / "empty", &folder)));
  folder.reset();
  EXPECT_TRUE(std::filesystem::exists(temp / "empty")) << "it was there before";
}

TEST(StorageFolder, ClearsAwayWhatAKilledProcessLeft) {
  const TempFolder temp;
  const pid_t child = ::fork();
  if (child == 0) {
    std::unique_ptr<StorageFolder> folder;
    if (!Make(temp.path(), &folder).ok()) ::_exit(1);
    std::ofstream(folder->path() + "/000000.seg") << "rows";
    ::_exit(0);  // nothing is ended
  }
  int state = 0;
  ::waitpid(child, &state, 0);
  ASSERT_EQ(WEXITSTATUS(state), 0);
  EXPECT_EQ(temp.Contents().count("keras_sparse-table-000000/000000.seg"), 1u);
  std::unique_ptr<StorageFolder> folder;
  ASSERT_TRUE(IsOk(Make(temp.path(), &folder)));
  EXPECT_EQ(temp.Contents(), OneTable("", "000000"));
}

TEST(StorageFolder, RefusesAPathThatAnotherProcessUses) {
  const TempFolder temp;
  std::unique_ptr<StorageFolder> folder;
  ASSERT_TRUE(IsOk(Make(temp.path(), &folder)));
  FileSystem* const file_system = FileSystem::Posix();  // what the objects hold that the child ends
  const pid_t child = ::fork();
  if (child == 0) {
    // As a process that begins anew: it knows nothing of the lock.
    std::unique_ptr<FileSystem::Lock> lock;
    const Status status = FileSystem::Posix()->LockFile(temp / "keras_sparse.lock", &lock);
    if (status.message().find("another has it") == std::string::npos) ::_exit(1);
    // And as what it is.
    std::unique_ptr<StorageFolder> theirs;
    const Status made = Make(temp.path(), &theirs);
    if (made.message().find("forked") == std::string::npos) ::_exit(2);
    folder.reset();
    (void)file_system->RemoveFolder(temp.path());
    ::_exit(0);
  }
  int state = 0;
  ::waitpid(child, &state, 0);
  EXPECT_EQ(WEXITSTATUS(state), 0);
  EXPECT_TRUE(std::filesystem::exists(folder->path())) << "the child left the files alone";
}

TEST(StorageFolder, IsNotHeldByForkedChildrenOfAKilledProcess) {
  const TempFolder temp;
  int ends[2];
  int begun[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::pipe(begun), 0);
  char byte = 0;
  const pid_t child = ::fork();
  if (child == 0) {
    std::unique_ptr<StorageFolder> folder;
    if (!Make(temp.path(), &folder).ok()) ::_exit(1);
    if (::fork() == 0) {
      ::close(ends[1]);
      if (::write(begun[1], &byte, 1) != 1) ::_exit(1);
      ::_exit(static_cast<int>(::read(ends[0], &byte, 1)));  // when the test closes its end
    }
    ::_exit(::read(begun[0], &byte, 1) == 1 ? 0 : 1);
  }
  int state = 0;
  ::waitpid(child, &state, 0);
  ASSERT_EQ(WEXITSTATUS(state), 0);
  std::unique_ptr<StorageFolder> folder;
  EXPECT_TRUE(IsOk(Make(temp.path(), &folder)));
  for (const int each : {ends[0], ends[1], begun[0], begun[1]}) ::close(each);
}

TEST(StorageFolder, LeavesThePathToWhomeverHasItSince) {
  const TempFolder temp;
  const std::string path = temp / "ssd";
  std::unique_ptr<StorageFolder> first;
  std::unique_ptr<StorageFolder> second;
  ASSERT_TRUE(IsOk(Make(path, &first)));
  ASSERT_TRUE(IsOk(Make(path, &second)));
  std::filesystem::remove_all(path);
  // Another open file stands for another process.
  std::filesystem::create_directories(path + "/keras_sparse-table-000000");
  std::ofstream(path + "/keras_sparse.own-000000");
  std::unique_ptr<FileSystem::Lock> theirs;
  ASSERT_TRUE(IsOk(FileSystem::Posix()->LockFile(path + "/keras_sparse.lock", &theirs)));
  first.reset();
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "another has it", Make(path, &first)));
  Contents expected = OneTable("ssd/", "000000");
  expected.insert("ssd");
  EXPECT_EQ(temp.Contents(), expected);
  theirs.reset();
  ASSERT_TRUE(IsOk(Make(path, &first)));
  expected = OneTable("ssd/", "000002");
  expected.insert("ssd");
  EXPECT_EQ(temp.Contents(), expected);
  first.reset();
  second.reset();
  EXPECT_TRUE(temp.Contents().empty());
}

TEST(StorageFolder, LeavesNothingWhereItCannotBeMade) {
  const TempFolder temp;
  // With a folder for the table, longer than a path may be.
  std::string path = temp / "rows";
  while (path.size() < 4060)
    path += "/" + std::string(std::min<size_t>(200, 4070 - path.size()), 'x');
  std::unique_ptr<StorageFolder> folder;
  EXPECT_TRUE(
      FailsWith(StatusCode::kFailedPrecondition, "File name too long", Make(path, &folder)));
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(path).parent_path()));
}

// Each call of the file system in its turn.
struct FailingCall {
  std::atomic<int64_t> FaultyFileSystem::* calls_left;
  int64_t succeed;
  std::string error;
};

const FailingCall kFailingCalls[] = {{&FaultyFileSystem::folders_left, 0, "could not make folder"},
                                     {&FaultyFileSystem::folders_left, 1, "could not make folder"},
                                     {&FaultyFileSystem::locks_left, 0, "could not lock"},
                                     {&FaultyFileSystem::lists_left, 0, "could not list"}};

TEST(StorageFolder, LeavesNothingWhereTheFileSystemFails) {
  for (const FailingCall& call : kFailingCalls) {
    const TempFolder temp;
    const std::string path = temp / "rows";
    FaultyFileSystem file_system;
    std::unique_ptr<StorageFolder> folder;
    file_system.*call.calls_left = call.succeed;
    const Status status = StorageFolder::Make(&file_system, path, &folder);
    EXPECT_FALSE(status.ok());
    EXPECT_TRUE(FailsWith(status.code(), "`storage_path` must be a folder in which", status));
    EXPECT_TRUE(FailsWith(status.code(), call.error + " '" + path, status));
    EXPECT_EQ(temp.Contents(), Contents{});
    file_system.*call.calls_left = INT64_MAX;
    ASSERT_TRUE(IsOk(StorageFolder::Make(&file_system, path, &folder)));
    // Another table: the first one has its folder whatever becomes of the second.
    std::ofstream(folder->path() + "/file") << "rows";
    const Contents before = temp.Contents();
    std::unique_ptr<StorageFolder> second;
    file_system.folders_left = 1;
    EXPECT_FALSE(StorageFolder::Make(&file_system, path, &second).ok());
    EXPECT_EQ(temp.Contents(), before);
    file_system.folders_left = INT64_MAX;
    EXPECT_TRUE(IsOk(StorageFolder::Make(&file_system, path, &second)));
    folder.reset();
    second.reset();
    EXPECT_EQ(temp.Contents(), Contents{});
  }
}

TEST(StorageFolder, IsClearOfWhatOthersLeftOnceItCouldBeListed) {
  const TempFolder temp;
  const std::string path = temp / "rows";
  FaultyFileSystem file_system;
  std::unique_ptr<StorageFolder> first;
  std::unique_ptr<StorageFolder> second;
  ASSERT_TRUE(IsOk(StorageFolder::Make(&file_system, path, &first)));
  // Another process has had the path, and was killed.
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path + "/keras_sparse-table-000001/ssdhash-0");
  std::ofstream(path + "/keras_sparse.own-000001");
  file_system.lists_left = 0;
  EXPECT_TRUE(FailsWith(StatusCode::kDataLoss, "could not list",
                        StorageFolder::Make(&file_system, path, &second)));
  file_system.lists_left = INT64_MAX;
  ASSERT_TRUE(IsOk(StorageFolder::Make(&file_system, path, &second)));
  Contents expected = OneTable("rows/", "000001");
  expected.insert("rows");
  EXPECT_EQ(temp.Contents(), expected);
}

TEST(StorageFolder, LeavesAFolderOfItsNameThatItHasNotMade) {
  const TempFolder temp;
  std::filesystem::create_directory(temp / "keras_sparse-table-000000");
  std::ofstream(temp / "keras_sparse-table-000000/precious") << "text";
  std::unique_ptr<StorageFolder> folder;
  ASSERT_TRUE(IsOk(Make(temp.path(), &folder)));
  EXPECT_EQ(folder->path(), temp / "keras_sparse-table-000001");
  folder.reset();
  EXPECT_EQ(temp.Contents(),
            (Contents{"keras_sparse-table-000000", "keras_sparse-table-000000/precious"}));
}

TEST(StorageFolder, NamesAPathThatCannotBeAFolder) {
  const TempFolder temp;
  std::ofstream(temp / "file") << "text";
  std::unique_ptr<StorageFolder> folder;
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition,
                        "could not make folder '" + (temp / "file/rows") + "'",
                        Make(temp / "file/rows", &folder)));
}

}  // namespace keras_sparse::storage_folder_test
