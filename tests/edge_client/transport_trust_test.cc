#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "tests/edge_client/transport_fixture.h"

namespace muster {
namespace {

using namespace testing;
using ::testing::HasSubstr;

// Whom the transport trusts, and what it says when it is not trusted.
using TransportTrustTest = TransportTest;

TEST_F(TransportTrustTest, TLS29_AnotherHostIsNotVerifiedAndGetsNothing) {
  std::atomic<int> requests = 0;
  const ScriptedServer server(
      world_.server_for({"other.example"}, now(), kDay), world_.authority.certificate(),
      &world_.authority.certificate(),
      [&](ScriptedConnection& connection, int) { requests += connection.read_head().has_value(); });
  const auto reply = Transport(options(server)).get("/secret");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().reason, "server_not_verified") << reply.error().message;
  EXPECT_EQ(requests, 0);
}

TEST_F(TransportTrustTest, TLS29_AnotherAuthorityIsNotVerifiedAndGetsNothing) {
  const World impostor;
  std::atomic<int> requests = 0;
  const ScriptedServer server(
      impostor.server, impostor.authority.certificate(), nullptr,
      [&](ScriptedConnection& connection, int) { requests += connection.read_head().has_value(); });
  const auto reply = Transport(options(server)).get("/secret");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().reason, "server_not_verified");
  EXPECT_EQ(reply.error().code, ErrorCode::kUnauthenticated);
  EXPECT_EQ(requests, 0);
}

TEST_F(TransportTrustTest, TLS29_ADeviceCannotPoseAsTheServer) {
  const ScriptedServer server(world_.device, world_.authority.certificate(), nullptr,
                              answering([](const ScriptedRequest&) { return http(200, ""); }));
  const auto reply = Transport(options(server)).get("/");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().reason, "server_not_verified");
}

TEST_F(TransportTrustTest, TM05_AnExpiredServerIsToldWithTheClockAndTheDates) {
  const ScriptedServer server(
      world_.server_for({"localhost"}, now() - 240 * std::chrono::hours(1), kDay),
      world_.authority.certificate(), nullptr,
      answering([](const ScriptedRequest&) { return http(200, ""); }));
  const auto reply = Transport(options(server)).get("/");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().reason, "server_not_verified");
  EXPECT_THAT(reply.error().message, HasSubstr("clock is"));
  EXPECT_THAT(reply.error().message, HasSubstr("valid from"));
}

TEST_F(TransportTrustTest, TLS30_ARejectedCertificateIsToldByItsAlert) {
  const World others;  // the server knows another authority for its clients
  const ScriptedServer server(world_.server, world_.authority.certificate(),
                              &others.authority.certificate(),
                              answering([](const ScriptedRequest&) { return http(200, ""); }));
  const auto reply = Transport(options(server)).get("/");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kUnauthenticated) << reply.error().message;
  EXPECT_EQ(reply.error().reason, "certificate_rejected");
  EXPECT_THAT(reply.error().message, HasSubstr("certificate rejected (48)"));
}

TEST_F(TransportTrustTest, TLS30_AlsoInTheMiddleOfALargeUpload) {
  const World others;
  const ScriptedServer server(world_.server, world_.authority.certificate(),
                              &others.authority.certificate(),
                              answering([](const ScriptedRequest&) { return http(200, ""); }));
  const auto reply =
      Transport(options(server)).put_file("/u", file("big", std::string(8 << 20, 'u')), {});
  ASSERT_FALSE(reply);
  EXPECT_TRUE(reply.error().reason == "certificate_rejected") << reply.error().message;
}

TEST_F(TransportTrustTest, NoCertificateWhereOneIsWantedIsRejected116) {
  const auto server = serve(answering([](const ScriptedRequest&) { return http(200, ""); }));
  const auto reply = Transport({.server = server.url(),
                                .authority = world_.authority.certificate(),
                                .certificate = std::nullopt})
                         .get("/");
  ASSERT_FALSE(reply);
  EXPECT_THAT(reply.error().message, HasSubstr("(116)"));
}

}  // namespace
}  // namespace muster
