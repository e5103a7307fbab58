#include "core/base/names.h"

#include <gtest/gtest.h>

#include <string>

namespace muster {
namespace {

TEST(Names, AcceptsLettersDigitsDotUnderlineDash) {
  for (const std::string_view name : {"a", "9", "Device-7", "job_1.v2", "A..b", "x-", "0-_."}) {
    EXPECT_TRUE(is_name(name)) << name;
    EXPECT_TRUE(check_name("device name", name));
  }
  EXPECT_TRUE(is_name(std::string(64, 'a')));
}

TEST(Names, RefusesWhatCouldBeAPathAnOptionOrMarkup) {
  for (const std::string_view name :
       {"", ".", "..", ".hidden", "-rf", "_a", "a/b", "../a", "a b", "a\n", "a\\b", "a%2f", "<b>",
        "a:b", "a\x7f", "\xc3\xa4", "a\xc3\xa4", "a\"b", "1;DROP TABLE rounds"}) {
    EXPECT_FALSE(is_name(name)) << name;
  }
  EXPECT_FALSE(is_name(std::string(65, 'a')));
  EXPECT_FALSE(is_name(std::string_view("a\0b", 3)));
}

TEST(Names, ErrorSaysWhichNameAndWhatWasFound) {
  const Status status = check_name("device name", "a\nb");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(status.error().reason, "bad_name");
  EXPECT_NE(status.error().message.find("device name \"a\\x0ab\""), std::string::npos)
      << status.error().message;
}

}  // namespace
}  // namespace muster
