#include "core/base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <thread>
#include <vector>

#include "tests/support/resident_memory.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class FileTest : public testing::Test {
 protected:
  FileTest() {
    std::string pattern = (fs::temp_directory_path() / "muster-file-test-XXXXXX").native();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~FileTest() override { fs::remove_all(folder_); }

  fs::path put(const std::string& name, const std::string& content, mode_t mode = 0644) const {
    const fs::path path = folder_ / name;
    std::ofstream(path, std::ios::binary) << content;
    ::chmod(path.c_str(), mode);
    return path;
  }
  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  static mode_t mode_of(const fs::path& path) {
    struct stat status {};
    EXPECT_EQ(::lstat(path.c_str(), &status), 0);
    return status.st_mode & 07777;
  }

  fs::path folder_;
};

TEST_F(FileTest, ReadsAWholeFileUpToTheLimit) {
  const std::string content("ab\0\ncd", 6);
  const fs::path path = put("a", content);
  EXPECT_EQ(read_file(path, 6).value(), content);
  EXPECT_EQ(read_file(path, 1000).value(), content);
  EXPECT_EQ(read_file(put("empty", ""), 0).value(), "");
}

TEST_F(FileTest, RefusesAFileOverTheLimit) {
  const auto result = read_file(put("a", "abcdef"), 5);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(result.error().reason, "too_large");
  EXPECT_THAT(result.error().message, HasSubstr("limit of 5 bytes"));
}

TEST_F(FileTest, HoldsTheLimitWhereTheSizeIsNotKnown) {
  EXPECT_EQ(read_file("/proc/self/cmdline", 1 << 20).value().back(), '\0');
  const auto endless = read_file("/dev/zero", 100'000);
  ASSERT_FALSE(endless);
  EXPECT_EQ(endless.error().reason, "too_large");
}

TEST_F(FileTest, NamesThePathAndTheSystemsReason) {
  const auto missing = read_file(folder_ / "absent", 10);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr((folder_ / "absent").native()));
  EXPECT_THAT(missing.error().message, HasSubstr("No such file or directory"));
  EXPECT_FALSE(read_file(folder_, 10)) << "a folder";
}

TEST_F(FileTest, WritesExactlyTheContentWithTheMode) {
  const fs::path path = folder_ / "new";
  ASSERT_TRUE(write_file_durably(path, as_bytes("one")));
  EXPECT_EQ(read_file(path, 100).value(), "one");
  EXPECT_EQ(mode_of(path), 0644U);
  ASSERT_TRUE(write_file_durably(path, as_bytes(""), 0600));
  EXPECT_EQ(read_file(path, 100).value(), "");
  EXPECT_EQ(mode_of(path), 0600U);
  EXPECT_EQ(entries(), 1U) << "no temporary file is left";
}

TEST_F(FileTest, WritesInTheCurrentFolderAndUnderTheLongestName) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  EXPECT_TRUE(write_file_durably("bare", as_bytes("x")));
  fs::current_path(before);
  EXPECT_TRUE(fs::exists(folder_ / "bare"));
  EXPECT_TRUE(write_file_durably(folder_ / std::string(255, 'n'), as_bytes("x")));
}

TEST_F(FileTest, LeavesNothingBehindWhenWritingFails) {
  fs::create_directory(folder_ / "occupied");
  std::ofstream(folder_ / "occupied" / "child") << "x";
  const Status over_folder = write_file_durably(folder_ / "occupied", as_bytes("x"));
  ASSERT_FALSE(over_folder);
  EXPECT_THAT(over_folder.error().message, HasSubstr("occupied"));
  EXPECT_EQ(entries(), 1U) << "the temporary file is gone";

  const Status no_folder = write_file_durably(folder_ / "absent" / "a", as_bytes("x"));
  ASSERT_FALSE(no_folder);
  EXPECT_EQ(no_folder.error().code, ErrorCode::kNotFound);
}

TEST_F(FileTest, KeepsTheOldContentWhenThereIsNoRoom) {
  const fs::path path = put("a", "old");
  // A child, so that its limit on file sizes stays its own.
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1024, 1024};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const Status status = write_file_durably(path, Bytes(100'000));
    ::_exit(!status && status.error().code == ErrorCode::kResourceExhausted ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "the write must fail as a limit that was reached";
  EXPECT_EQ(read_file(path, 100).value(), "old");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(FileTest, ReplacesSoThatReadersSeeOneWholeContent) {
  const fs::path path = folder_ / "shared";
  const std::string contents[] = {std::string(50'000, 'a'), std::string(70'000, 'b')};
  ASSERT_TRUE(write_file_durably(path, as_bytes(contents[0])));
  std::vector<std::thread> writers;
  for (const std::string& content : contents) {
    writers.emplace_back([&path, &content] {
      for (int i = 0; i < 20; ++i) EXPECT_TRUE(write_file_durably(path, as_bytes(content)));
    });
  }
  for (int i = 0; i < 200; ++i) {
    const auto seen = read_file(path, 1 << 20);
    ASSERT_TRUE(seen);
    EXPECT_TRUE(*seen == contents[0] || *seen == contents[1]);
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(entries(), 1U);
}

TEST_F(FileTest, SyncsFoldersOnly) {
  EXPECT_TRUE(sync_folder(folder_));
  EXPECT_FALSE(sync_folder(put("a", "x")));
  EXPECT_FALSE(sync_folder(folder_ / "absent"));
}

TEST_F(FileTest, AcceptsAPrivateFile) {
  EXPECT_TRUE(check_private_file(put("key", "x", 0600)));
  EXPECT_TRUE(check_private_file(put("key", "x", 0400)));
}

TEST_F(FileTest, RefusesAPrivateFileThatOthersCanUse) {
  for (const mode_t mode : {0640U, 0604U, 0644U, 0620U, 0602U, 0610U, 0601U, 0660U, 0777U}) {
    const Status status = check_private_file(put("key", "x", mode));
    ASSERT_FALSE(status) << std::oct << mode;
    EXPECT_EQ(status.error().code, ErrorCode::kPermissionDenied);
    EXPECT_THAT(status.error().message, HasSubstr("0600 is wanted"));
    EXPECT_THAT(status.error().message, HasSubstr((folder_ / "key").native()));
  }
}

TEST_F(FileTest, RefusesAPrivateFileThatIsNoRegularFile) {
  const fs::path key = put("key", "x", 0600);
  fs::create_symlink(key, folder_ / "link");
  EXPECT_THAT(check_private_file(folder_ / "link").error().message, HasSubstr("symbolic link"));
  EXPECT_THAT(check_private_file(folder_).error().message, HasSubstr("not a regular file"));
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_FALSE(check_private_file(folder_ / "pipe"));
  EXPECT_EQ(check_private_file(folder_ / "absent").error().code, ErrorCode::kNotFound);
}

TEST_F(FileTest, RefusesAPrivateFileOfAnotherUser) {
  const fs::path path = put("key", "x", 0600);
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
  EXPECT_THAT(check_private_file(path).error().message, HasSubstr("belongs to user 12345"));
}

TEST_F(FileTest, MapsTheBytesOfAFile) {
  const std::string content(10'000, 'm');
  auto mapped = MappedFile::open(put("a", content));
  ASSERT_TRUE(mapped);
  EXPECT_EQ(as_text(mapped->bytes()), content);
  MappedFile moved = *std::move(mapped);
  EXPECT_EQ(as_text(moved.bytes()), content);
  EXPECT_TRUE(
      mapped->bytes().empty());  // NOLINT(bugprone-use-after-move): that it is empty is the claim
  moved = MappedFile::open(put("b", "bb")).value();
  EXPECT_EQ(as_text(moved.bytes()), "bb");
}

// Maps begin at any page, not at a window of those that come into memory together.
TEST_F(FileTest, LeavesNothingOfAMapInMemoryThatIsReadAndReleasedPieceByPiece) {
  constexpr std::size_t kPage = 4096;
  // Written in pieces that come into memory alone.
  const fs::path path = folder_ / "pieces";
  ASSERT_TRUE(write_file_durably(path, as_bytes(std::string(75 * kPage + 11, 'x'))));
  std::vector<MappedFile> maps;
  for (int i = 0; i < 5; ++i) maps.push_back(MappedFile::open(path).value());
  for (const MappedFile& map : maps) {
    for (std::size_t at = 0; at < map.bytes().size(); at += kPage) {
      EXPECT_EQ(map.bytes()[at], std::byte{'x'});
      EXPECT_GT(resident_bytes(path), 0U);
      map.release(at, kPage);
      EXPECT_EQ(resident_bytes(path), 0U) << at;
    }
    map.release(map.bytes().size() - 1, std::size_t{1} << 62);
    map.release(map.bytes().size(), 1);
    EXPECT_EQ(map.bytes().back(), std::byte{'x'});
    map.release(0, map.bytes().size());
  }
}

TEST_F(FileTest, KeepsAMapWhenTheFileIsReplaced) {
  const fs::path path = put("a", "old");
  const MappedFile mapped = MappedFile::open(path).value();
  ASSERT_TRUE(write_file_durably(path, as_bytes("new content")));
  EXPECT_EQ(as_text(mapped.bytes()), "old");
}

TEST_F(FileTest, MapsAnEmptyFileAndRefusesOthers) {
  EXPECT_TRUE(MappedFile::open(put("empty", "")).value().bytes().empty());
  EXPECT_FALSE(MappedFile::open(folder_));
  EXPECT_EQ(MappedFile::open(folder_ / "absent").error().code, ErrorCode::kNotFound);
}

TEST_F(FileTest, LocksOnceUntilReleased) {
  const fs::path path = folder_ / "lock";
  {
    auto first = FileLock::acquire(path);
    ASSERT_TRUE(first);
    const FileLock moved = *std::move(first);
    const auto second = FileLock::acquire(path);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::kFailedPrecondition);
    EXPECT_EQ(second.error().reason, "locked");
  }
  EXPECT_TRUE(FileLock::acquire(path));
}

TEST_F(FileTest, LockEndsWithItsProcess) {
  const fs::path path = folder_ / "lock";
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    auto held = FileLock::acquire(path);
    const char answer = held ? 'y' : 'n';
    if (::write(ready[1], &answer, 1) != 1) ::_exit(1);
    ::pause();
  }
  char answer = 0;
  ASSERT_EQ(::read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  EXPECT_FALSE(FileLock::acquire(path));
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(FileLock::acquire(path));
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(FileTest, DescriptorsAreNotInheritedByPrograms) {
  const FileLock lock = FileLock::acquire(folder_ / "lock").value();
  int found = 0;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    if (fs::read_symlink(entry.path(), ignored) != folder_ / "lock") continue;
    ++found;
    EXPECT_NE(::fcntl(std::stoi(entry.path().filename()), F_GETFD) & FD_CLOEXEC, 0);
  }
  EXPECT_EQ(found, 1);
}

}  // namespace
}  // namespace muster
