#include <gtest/gtest.h>

#include "edge_client/transport.h"

namespace muster {
namespace {

using std::chrono::milliseconds;

TEST(ServerUrl, ReadsHostAndPort) {
  for (const char* text :
       {"https://fl.example.org:8443", "https://127.0.0.1:1", "https://[::1]:65535"}) {
    const auto url = ServerUrl::parse(text);
    ASSERT_TRUE(url) << text << ": " << url.error().message;
    EXPECT_EQ(url->text(), text);
  }
  EXPECT_EQ(ServerUrl::parse("https://[::1]:8443")->host, "::1");
}

TEST(ServerUrl, RefusesEverythingElse) {
  for (const char* text :
       {"", "http://host:8443", "HTTPS://host:8443", "https://host",
        "https://host:", "https://:8443", "https://host:0", "https://host:65536",
        "https://host:8443/", "https://host:8443/path", "https://user@host:8443",
        "https://host:8443?x", "https://ho st:8443", "https://host:+8443", "https://host:8443 ",
        "https://[::1:8443", "https://host:84:43", "https://host:99999999999999999999"}) {
    const auto url = ServerUrl::parse(text);
    ASSERT_FALSE(url) << text;
    EXPECT_EQ(url.error().reason, "bad_url") << text;
  }
}

TEST(HttpReply, RetryAfterPrefersMillisecondsAndIsAtMostAnHour) {
  EXPECT_EQ(HttpReply{}.retry_after(), std::nullopt);
  EXPECT_EQ((HttpReply{204, "", {{"retry-after", "2"}}}.retry_after()), milliseconds(2000));
  EXPECT_EQ(
      (HttpReply{204, "", {{"retry-after", "2"}, {"muster-retry-after-ms", "1250"}}}.retry_after()),
      milliseconds(1250));
  EXPECT_EQ((HttpReply{503, "", {{"retry-after", "9223372036854775807"}}}.retry_after()),
            milliseconds(3'600'000));
  EXPECT_EQ((HttpReply{503, "", {{"retry-after", "-1"}}}.retry_after()), std::nullopt);
  EXPECT_EQ((HttpReply{503, "", {{"retry-after", "Wed, 21 Oct 2026 07:28:00 GMT"}}}.retry_after()),
            std::nullopt);
}

TEST(HttpReply, AProblemBecomesAnErrorWithItsCodeAsReason) {
  const HttpReply reply{410,
                        R"({"type":"urn:muster:problem:round_closed","title":"Gone","status":410,)"
                        R"("detail":"round 3 is over","code":"round_closed","request_id":"r7"})",
                        {{"content-type", "application/problem+json"}}};
  EXPECT_EQ(reply.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(reply.error().reason, "round_closed");
  EXPECT_NE(reply.error().message.find("round 3 is over"), std::string::npos);
}

TEST(HttpReply, E04_APageOfSomethingElseIsAnUnexpectedAnswer) {
  const HttpReply page{502, "<html>", {{"content-type", "text/html"}}};
  EXPECT_EQ(page.error().reason, "unexpected_answer");
  EXPECT_EQ(page.error().code, ErrorCode::kUnavailable);
  const HttpReply redirect{302, "", {{"location", "http://elsewhere/"}}};
  EXPECT_EQ(redirect.error().reason, "unexpected_answer");
}

}  // namespace
}  // namespace muster
