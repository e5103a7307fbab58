#include "storage/state_files.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <numeric>
#include <optional>
#include <thread>

#include "core/tensor/safetensors.h"
#include "tests/storage/store_fixture.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

StateDict counting_state(std::int64_t elements, float first) {
  const auto layout = StateLayout::create({{"b", {3}}, {"a", {elements}}});
  StateDict state(*layout);
  std::iota(state.values().begin(), state.values().end(), first);
  return state;
}

std::size_t entries_in(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

class StateFilesTest : public testing::Test {
 protected:
  void SetUp() override { open(); }
  void open() {
    Result<StateFiles> files = StateFiles::open(root());
    ASSERT_OK(files);
    files_ = *std::move(files);
  }
  fs::path root() const { return folder_.path() / "deep" / "states"; }
  fs::path spool() const { return root() / "spool"; }

  fs::path spooled(const std::string& content) {
    const fs::path path = files_->spool_path();
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  TemporaryFolder folder_;
  std::optional<StateFiles> files_;
};

TEST_F(StateFilesTest, WritesTheCanonicalFileUnderItsDigestAndReadsItBack) {
  // Over one piece of 4 MiB, so that the pieces join up.
  for (const std::int64_t elements : {0, 1, 1'000, 3'000'000}) {
    const StateDict state = counting_state(elements, 0.5F);
    const Result<Digest> digest = files_->write(state);
    ASSERT_OK(digest);
    EXPECT_EQ(*digest, state_digest(state));
    EXPECT_EQ(files_->path_of(*digest), root() / (digest->hex() + ".safetensors"));
    open();
    const Bytes wanted = write_state(state);
    const auto mapped = files_->map(*digest);
    ASSERT_OK(mapped);
    EXPECT_TRUE(std::ranges::equal(mapped->bytes(), wanted));
    EXPECT_EQ(*files_->size_of(*digest), wanted.size());
    const auto read = files_->read(*digest);
    ASSERT_OK(read);
    EXPECT_TRUE(*read == state);
    EXPECT_EQ(entries_in(spool()), 0U);
  }
}

TEST_F(StateFilesTest, WritingAgainKeepsTheFileThatIsThere) {
  const StateDict state = counting_state(10, 1.0F);
  const Digest digest = *files_->write(state);
  struct stat before {};
  ASSERT_EQ(::stat(files_->path_of(digest).c_str(), &before), 0);
  EXPECT_EQ(*files_->write(state), digest);
  struct stat after {};
  ASSERT_EQ(::stat(files_->path_of(digest).c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_EQ(entries_in(spool()), 0U);
}

TEST_F(StateFilesTest, WritingAgainHealsAFileThatWasCutShort) {
  const StateDict state = counting_state(10, 1.0F);
  const Digest digest = *files_->write(state);
  fs::permissions(files_->path_of(digest), fs::perms(0600));
  fs::resize_file(files_->path_of(digest), 20);
  EXPECT_ERROR(files_->read(digest), kDataLoss, "state_damaged");
  ASSERT_OK(files_->write(state));
  ASSERT_OK(files_->read(digest));
}

TEST_F(StateFilesTest, FoldersAndFilesAreForThisUserOnlyWhateverTheUmask) {
  const mode_t before = ::umask(0);
  const auto files = StateFiles::open(folder_.path() / "open" / "states");
  ASSERT_OK(files);
  const Digest digest = *files->write(counting_state(1, 0.0F));
  ::umask(before);
  const fs::path file = files->path_of(digest);
  for (const fs::path& folder :
       {folder_.path() / "open", file.parent_path(), file.parent_path() / "spool"}) {
    EXPECT_EQ(static_cast<int>(fs::status(folder).permissions()), 0700) << folder;
  }
  EXPECT_EQ(static_cast<int>(fs::status(file).permissions()), 0400);
}

TEST_F(StateFilesTest, AdoptsASpooledBody) {
  const fs::path path = spooled("a body");
  const Digest digest = sha256("a body");
  EXPECT_FALSE(files_->has(digest));
  ASSERT_OK(files_->adopt(path, digest));
  EXPECT_TRUE(files_->has(digest));
  EXPECT_FALSE(fs::exists(path));
  EXPECT_EQ(as_text(files_->map(digest)->bytes()), "a body");
  const fs::path again = spooled("a body");
  ASSERT_OK(files_->adopt(again, digest));
  EXPECT_FALSE(fs::exists(again));
}

TEST_F(StateFilesTest, AFailedAdoptionLeavesNothingInTheSpool) {
  const Digest digest = sha256("a body");
  EXPECT_ERROR(files_->adopt(spool() / "never-written", digest), kNotFound, "file_missing");
  fs::create_directory(files_->path_of(digest));  // no file can be renamed onto it
  EXPECT_FALSE(files_->adopt(spooled("a body"), digest).has_value());
  EXPECT_EQ(entries_in(spool()), 0U);
}

TEST_F(StateFilesTest, WhatIsMissingIsNamedSo) {
  const Digest digest = sha256("nothing");
  EXPECT_FALSE(files_->has(digest));
  EXPECT_ERROR(files_->map(digest), kNotFound, "artefact_missing");
  EXPECT_ERROR(files_->size_of(digest), kNotFound, "artefact_missing");
  EXPECT_ERROR(files_->read(digest), kNotFound, "artefact_missing");
  EXPECT_ERROR(files_->remove(digest), kNotFound, "artefact_missing");
}

TEST_F(StateFilesTest, RemovesAFile) {
  const Digest digest = *files_->write(counting_state(1, 0.0F));
  ASSERT_OK(files_->remove(digest));
  EXPECT_FALSE(files_->has(digest));
}

TEST_F(StateFilesTest, FindsAnyFlippedBit) {
  const Digest digest = *files_->write(counting_state(4, 1.0F));
  const fs::path path = files_->path_of(digest);
  fs::permissions(path, fs::perms(0600));
  const std::uint64_t size = *files_->size_of(digest);
  for (std::uint64_t at = 0; at < size; ++at) {
    const auto flip = [&] {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(static_cast<std::streamoff>(at));
      const int byte = file.get();
      file.seekp(static_cast<std::streamoff>(at));
      file.put(static_cast<char>(byte ^ 1));
    };
    flip();
    EXPECT_ERROR(files_->read(digest), kDataLoss, "state_damaged");
    flip();
  }
  ASSERT_OK(files_->read(digest));
}

TEST_F(StateFilesTest, EmptiesTheSpoolWhenOpenedAndKeepsTheStates) {
  const Digest digest = *files_->write(counting_state(1, 0.0F));
  spooled("half a bo");
  fs::create_directories(spool() / "folder" / "in it");
  open();
  EXPECT_EQ(entries_in(spool()), 0U);
  EXPECT_TRUE(files_->has(digest));
}

TEST_F(StateFilesTest, SpoolPathsAreFresh) {
  EXPECT_NE(files_->spool_path(), files_->spool_path());
  EXPECT_EQ(files_->spool_path().parent_path(), spool());
}

TEST_F(StateFilesTest, RefusesFoldersThatOthersMayWriteTo) {
  for (const fs::path& folder : {root(), spool()}) {
    fs::permissions(folder, fs::perms::group_write, fs::perm_options::add);
    EXPECT_ERROR(StateFiles::open(root()), kFailedPrecondition, "insecure_folder");
    fs::permissions(folder, fs::perms::group_write, fs::perm_options::remove);
  }
  open();
}

TEST_F(StateFilesTest, RefusesARootThatIsAFile) {
  const fs::path path = folder_.path() / "file";
  std::ofstream(path) << "x";
  EXPECT_ERROR(StateFiles::open(path), kFailedPrecondition, "not_a_folder");
}

// The file size limit of a process stands in for a disk that fills up in the middle of a write.
TEST_F(StateFilesTest, AWriteThatDoesNotFitLeavesNothing) {
  const StateDict state = counting_state(100'000, 0.0F);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(2);
    const Result<Digest> written = files_->write(state);
    ::_exit(!written && written.error().code == ErrorCode::kResourceExhausted &&
                    written.error().reason == "disk_full"
                ? 0
                : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(entries_in(spool()), 0U);
  EXPECT_FALSE(files_->has(state_digest(state)));
}

TEST_F(StateFilesTest, ThreadsThatWriteTheSameStateAgree) {
  const StateDict state = counting_state(50'000, 2.0F);
  std::vector<std::thread> threads;
  std::array<Result<Digest>, 4> digests;
  for (Result<Digest>& digest : digests) {
    threads.emplace_back([&] { digest = files_->write(state); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Result<Digest>& digest : digests) {
    ASSERT_OK(digest);
    EXPECT_EQ(*digest, state_digest(state));
  }
  ASSERT_OK(files_->read(*digests[0]));
  EXPECT_EQ(entries_in(spool()), 0U);
}

}  // namespace
}  // namespace muster
