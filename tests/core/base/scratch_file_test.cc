#include "core/base/scratch_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>

namespace muster {
namespace {

namespace fs = std::filesystem;

class ScratchFileTest : public testing::Test {
 protected:
  ScratchFileTest() {
    std::string pattern = (fs::temp_directory_path() / "muster-scratch-test-XXXXXX").native();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~ScratchFileTest() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST_F(ScratchFileTest, HoldsWhatWasAppendedAndHasNoName) {
  auto file = ScratchFile::create(folder_);
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_TRUE(file->append(as_bytes("abc")));
  ASSERT_TRUE(file->append({}));
  ASSERT_TRUE(file->append(as_bytes("defg")));
  EXPECT_TRUE(fs::is_empty(folder_));
  const auto mapped = std::move(*file).map();
  ASSERT_TRUE(mapped) << mapped.error().message;
  EXPECT_EQ(as_text(mapped->bytes()), "abcdefg");
}

TEST_F(ScratchFileTest, TheMapOutlivesTheFile) {
  const auto mapped = [&] {
    auto file = ScratchFile::create(folder_);
    EXPECT_TRUE(file->append(as_bytes("abc")));
    return std::move(*file).map();
  }();
  ASSERT_TRUE(mapped);
  fs::remove_all(folder_);
  mapped->release(0, mapped->bytes().size());
  EXPECT_EQ(as_text(mapped->bytes()), "abc");
}

TEST_F(ScratchFileTest, AFolderThatIsNotThereIsAnError) {
  const auto file = ScratchFile::create(folder_ / "none");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::kNotFound);
}

// Whether a file that may not grow any more says so. Changes the process.
bool full_disk_is_said(const fs::path& folder) {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{1000, 1000};
  setrlimit(RLIMIT_FSIZE, &limit);
  auto file = ScratchFile::create(folder);
  const Status status = file->append(Bytes(5000));
  return !status && status.error().reason == "disk_full" &&
         status.error().code == ErrorCode::kResourceExhausted;
}

TEST_F(ScratchFileTest, AFullDiskIsSaidSo) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(std::exit(full_disk_is_said(folder_) ? 0 : 1), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace muster
