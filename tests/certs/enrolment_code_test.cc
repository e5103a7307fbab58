#include "certs/enrolment_code.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

using namespace muster;

namespace {

const Digest kAuthority = sha256(std::string_view("authority"));

}  // namespace

TEST(EnrolmentCode, ReadsBackWhatItPrints) {
  const EnrolmentCode code = EnrolmentCode::generate(kAuthority).value();
  const std::string text = code.text();
  EXPECT_EQ(text.size(), 99U);
  EXPECT_EQ(text, "muster1-" + code.secret + "-" + kAuthority.hex());
  const EnrolmentCode again = EnrolmentCode::parse(text).value();
  EXPECT_EQ(again.secret, code.secret);
  EXPECT_EQ(again.authority, kAuthority);
}

TEST(EnrolmentCode, SecretsDifferAndUseEveryBit) {
  std::set<std::string> secrets;
  std::set<char> first;
  for (int i = 0; i < 2000; ++i) {
    const std::string secret = EnrolmentCode::generate(kAuthority).value().secret;
    secrets.insert(secret);
    first.insert(secret.front());
  }
  EXPECT_EQ(secrets.size(), 2000U);
  EXPECT_EQ(first.size(), 32U);  // fails by chance once in 10^25
}

TEST(EnrolmentCode, RefusesEveryOtherText) {
  const std::string good = "muster1-aaaaaaaaaaaaaaaaaaaaaaaaae-" + kAuthority.hex();
  ASSERT_TRUE(EnrolmentCode::parse(good));
  std::set<std::string> bad = {"",
                               "muster1-",
                               " " + good,
                               good + " ",
                               good + "\n",
                               good + "0",
                               "muster2" + good.substr(7),
                               "Muster1" + good.substr(7)};
  for (std::size_t size = 0; size < good.size(); ++size) bad.insert(good.substr(0, size));
  // A character of no alphabet in every place.
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const char c : {'A', '!', '\0', '\xc3', '='}) {
      std::string text = good;
      text[at] = c;
      bad.insert(text);
    }
  }
  std::string other_bits = good;
  other_bits[33] = 'f';  // the last two bits belong to no byte: one secret would have two spellings
  bad.insert(other_bits);
  for (const auto& text : bad) {
    const auto code = EnrolmentCode::parse(text);
    ASSERT_FALSE(code) << text;
    EXPECT_EQ(code.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(code.error().reason, "bad_code");
    EXPECT_EQ(code.error().message.find("aaaaaaaa"), std::string::npos);
  }
}

TEST(EnrolmentCode, HashIsOverLabelAndSecret) {
  EXPECT_EQ(EnrolmentCode::hash_secret("abc"), sha256(std::string_view("muster-enrolment-v1abc")));
  EXPECT_NE(EnrolmentCode::hash_secret("abc"), EnrolmentCode::hash_secret("abd"));
}
