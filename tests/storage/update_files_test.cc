#include "storage/update_files.h"

#include <gmock/gmock.h>

#include <fstream>

#include "storage/state_files.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

class UpdateFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "muster-updates-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    fs::create_directories(root_ / "updates");
  }
  void TearDown() override { fs::remove_all(root_); }

  fs::path spooled(const std::string& content) const {
    std::ofstream(root_ / "body") << content;
    return root_ / "body";
  }
  static UpdateFiles::Key key(const std::string& job, std::int64_t round,
                              const std::string& content) {
    return {job, round, 1, "device-1", sha256(content)};
  }
  std::string content_of(const UpdateFiles::Key& which) const {
    const auto file = files().map(which);
    return file ? std::string(as_text(file->bytes())) : file.error().reason;
  }
  UpdateFiles files() const { return UpdateFiles(root_ / "updates"); }

  fs::path root_;
};

TEST_F(UpdateFilesTest, AnAdoptedBodyIsFoundUnderItsKeyAndNoOther) {
  ASSERT_TRUE(files().prepare_round("job", 1, 1));
  ASSERT_TRUE(files().adopt(spooled("one"), key("job", 1, "one")));
  EXPECT_FALSE(fs::exists(root_ / "body"));
  EXPECT_EQ(content_of(key("job", 1, "one")), "one");
  EXPECT_EQ(content_of(key("job", 2, "one")), "artefact_missing");
  EXPECT_EQ(content_of(key("job", 1, "two")), "artefact_missing");
}

TEST_F(UpdateFilesTest, TwoBodiesOfOneDeviceDoNotReplaceEachOther) {
  ASSERT_TRUE(files().prepare_round("job", 1, 1));
  ASSERT_TRUE(files().adopt(spooled("one"), key("job", 1, "one")));
  ASSERT_TRUE(files().adopt(spooled("two"), key("job", 1, "two")));
  EXPECT_EQ(content_of(key("job", 1, "one")), "one");
  files().remove(key("job", 1, "two"));
  EXPECT_EQ(content_of(key("job", 1, "two")), "artefact_missing");
  EXPECT_EQ(content_of(key("job", 1, "one")), "one");
}

TEST_F(UpdateFilesTest, ARoundsEndRemovesItsBodiesAndNoOthers) {
  for (const auto& [job, round] : {std::pair("a", 1), std::pair("a", 2), std::pair("b", 1)}) {
    ASSERT_TRUE(files().prepare_round(job, round, 1));
    ASSERT_TRUE(files().adopt(spooled("same"), key(job, round, "same")));
  }
  files().remove_round("a", 1, 1);
  EXPECT_EQ(content_of(key("a", 1, "same")), "artefact_missing");
  EXPECT_EQ(content_of(key("a", 2, "same")), "same");
  EXPECT_EQ(content_of(key("b", 1, "same")), "same");
}

TEST_F(UpdateFilesTest, AStartKeepsTheOpenRoundsOnly) {
  for (const auto& [job, round] : {std::pair("a", 1), std::pair("a", 2), std::pair("b", 1)}) {
    ASSERT_TRUE(files().prepare_round(job, round, 1));
    ASSERT_TRUE(files().adopt(spooled("same"), key(job, round, "same")));
  }
  files().keep_only({{"a", 2, 1}});
  EXPECT_EQ(content_of(key("a", 1, "same")), "artefact_missing");
  EXPECT_EQ(content_of(key("a", 2, "same")), "same");
  EXPECT_EQ(content_of(key("b", 1, "same")), "artefact_missing");
  EXPECT_FALSE(fs::exists(root_ / "updates" / "b"));
}

TEST_F(UpdateFilesTest, AMissingBodyIsAnErrorAndChangesNothing) {
  EXPECT_FALSE(files().adopt(root_ / "nothing", key("job", 1, "one")));
  EXPECT_EQ(content_of(key("job", 1, "one")), "artefact_missing");
}

}  // namespace
}  // namespace muster
