// The TLS rows of the table of hostile cases.
#include "tests/server/http/door_fixture.h"

namespace muster::http {
namespace {

using testing::hours;
using testing::OddLeaf;

class Tls : public FrontDoorTest {
 protected:
  // The alert that a client with this certificate gets; it must never reach a handler.
  std::optional<int> alert_for(const TlsClient::Setup& setup) {
    TlsClient client(door->port(), setup);
    client.ask(get("/v1/hello"));
    EXPECT_EQ(calls, 0);
    return client.alert();
  }
};

TEST_F(Tls, Tls01SilentConnectionsAreCutWhileGoodClientsAreServed) {
  options.limits.handshake = Milliseconds(1'500);
  start();
  std::vector<RawClient> silent;
  for (int i = 0; i < 200; ++i) silent.emplace_back(door->port());
  const auto began = SteadyClock::now();
  for (int i = 0; i < 5; ++i) {
    const auto asked = SteadyClock::now();
    const auto reply = ask(get("/v1/hello"));
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->status, 200);
    EXPECT_LT(SteadyClock::now() - asked, Milliseconds(1'000));
  }
  EXPECT_GE(door->open_connections(), 200u);
  for (auto& client : silent) EXPECT_EQ(client.read_to_end(), "");
  EXPECT_LT(SteadyClock::now() - began, Milliseconds(5'000));
  ASSERT_TRUE(wait_until([&] { return log.size() >= 205; }));
  EXPECT_EQ(records_with("handshake deadline"), 200u);
}

TEST_F(Tls, Tls02AClientHelloInDripsMeetsTheSameTotalDeadline) {
  start();
  RawClient client(door->port());
  const std::string hello("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
  const auto began = SteadyClock::now();
  for (std::size_t i = 0; !client.wait_readable(Milliseconds(60)); ++i) {
    ASSERT_LT(SteadyClock::now() - began, Milliseconds(4'000));
    client.send(std::string(1, i < hello.size() ? hello[i] : 'x'));
  }
  EXPECT_TRUE(client.read_to_end().has_value());
  EXPECT_GE(SteadyClock::now() - began, Milliseconds(400));
  EXPECT_TRUE(wait_for_problem("handshake deadline"));
}

TEST_F(Tls, Tls04GarbageInsteadOfAHandshakeIsClosed) {
  start();
  std::string random(3'000, '\0');
  std::uint32_t seed = 1;
  for (char& c : random) c = static_cast<char>((seed = seed * 1664525u + 1013904223u) >> 24);
  const std::string garbage[] = {
      random,
      std::string("\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10", 11) +
          random.substr(0, 37),                                              // SSLv2
      std::string("\x16\x03\x01\x44\x00", 5) + std::string(17 * 1024, 'a'),  // a record of 17 KiB
      std::string("\x16\x03\x01\x00\x05\x01\x00\x00\x01", 9),                // cut off
      "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"};
  for (const auto& text : garbage) {
    RawClient client(door->port());
    client.send(text);
    EXPECT_TRUE(client.read_to_end().has_value());
  }
  EXPECT_TRUE(wait_until([&] { return log.size() == 5; }));
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(ask(get("/v1/hello"))->status, 200);
}

TEST_F(Tls, Tls05And06OldVersionsGetProtocolVersion) {
  start();
  for (const int version : {TLS1_VERSION, TLS1_1_VERSION, TLS1_2_VERSION}) {
    EXPECT_EQ(alert_for({&authority.certificate(), &device_pair, version}), 70) << version;
  }
}

TEST_F(Tls, Tls09AFloodOfKeyUpdatesEndsTheConnection) {
  start();
  const auto client = connect();
  ASSERT_EQ(client->ask(get("/v1/hello"))->status, 200);
  for (int i = 0; i < 200; ++i) {
    if (SSL_key_update(client->native(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1 ||
        SSL_do_handshake(client->native()) != 1) {
      break;
    }
  }
  EXPECT_TRUE(client->is_closed());
  EXPECT_EQ(ask(get("/v1/hello"))->status, 200);
}

TEST_F(Tls, Tls10NoCertificateGetsCertificateRequired) {
  start();
  EXPECT_EQ(alert_for({&authority.certificate(), nullptr}), 116);
  EXPECT_TRUE(wait_for_problem("tls: "));
}

TEST_F(Tls, Tls12AnotherAuthorityGetsUnknownCa) {
  start();
  const auto other = testing::TestAuthority::create();
  const KeyPair pair = other.device();
  EXPECT_EQ(alert_for(as(pair)), 48);
}

TEST_F(Tls, Tls13AnExpiredCertificateGetsExpiredAndItsSerialIsLogged) {
  start();
  const KeyPair pair = authority.device("device-01", testing::now() - hours(72), hours(24));
  EXPECT_EQ(alert_for(as(pair)), 45);
  EXPECT_TRUE(wait_for_problem(pair.certificate.serial()));
}

TEST_F(Tls, Tls14ACertificateNotYetValidGetsBadCertificate) {
  start();
  const KeyPair pair = authority.device("device-01", testing::now() + hours(72), hours(24));
  EXPECT_EQ(alert_for(as(pair)), 42);
  EXPECT_TRUE(wait_for_problem("clock"));
}

TEST_F(Tls, Tls17And18TheWrongPurposeOrNoneGetsUnsupportedCertificate) {
  start();
  EXPECT_EQ(alert_for(as(server_pair)), 43);
  OddLeaf odd;
  odd.extended_key_usage = nullptr;
  const KeyPair pair = odd.make(authority);
  EXPECT_EQ(alert_for(as(pair)), 43);
}

TEST_F(Tls, Tls25ACertificateWithoutOneIdentityGets403OnItsFirstRequest) {
  start();
  for (const char* names : {"DNS:device-01", "URI:urn:muster:device:a,URI:urn:muster:operator:a",
                            "URI:http://device-01"}) {
    OddLeaf odd;
    odd.alternative_names = names;
    const KeyPair pair = odd.make(authority);
    const auto client = connect(&pair);
    const auto reply = client->ask(get("/v1/hello"));
    ASSERT_TRUE(reply.has_value()) << names;
    EXPECT_EQ(reply->status, 403) << names;
    EXPECT_EQ(code_of(*reply), "bad_identity");
    EXPECT_TRUE(client->is_closed());
  }
  EXPECT_EQ(calls, 0);
}

TEST_F(Tls, AListenerWithoutClientCertificatesServesOpenRoutesAlone) {
  start(false);
  TlsClient client(door->port(), {&authority.certificate(), nullptr});
  const auto open = client.ask(get("/v1/hello"));
  ASSERT_TRUE(open.has_value());
  EXPECT_EQ(Json::parse(open->body).at("caller"), "");
  EXPECT_EQ(client.ask(get("/v1/jobs/a"))->status, 403);
}

TEST_F(Tls, ResponsesComeBackInTheirOrderOnOneConnection) {
  start();
  const auto client = connect();
  for (int i = 0; i < 50; ++i) {
    const auto reply = client->ask(post("/v1/echo", std::to_string(i)));
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(Json::parse(reply->body).at("body"), std::to_string(i));
    EXPECT_FALSE(reply->closes());
  }
}

}  // namespace
}  // namespace muster::http
