#include <netinet/in.h>
#include <poll.h>

#include <csignal>
#include <functional>
#include <stop_token>
#include <thread>

#include "tests/certs/support.h"

using namespace muster;
using namespace muster::testing;

namespace {

// A listener on a free loopback port; `serve` runs on its own thread for one accepted connection,
// until the other side has closed or the object goes.
class Listener {
 public:
  using Serve = std::function<void(int descriptor, const std::stop_token& stop)>;

  explicit Listener(Serve serve) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(socket_, 8), 0);
    socklen_t size = sizeof address;
    EXPECT_EQ(getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    if (!serve) return;
    thread_ = std::jthread([this, serve = std::move(serve)](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        pollfd entry{socket_, POLLIN, 0};
        if (poll(&entry, 1, 20) <= 0) continue;
        const int descriptor = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
        serve(descriptor, stop);
        close(descriptor);
        return;
      }
    });
  }
  ~Listener() {
    if (thread_.joinable()) {
      thread_.request_stop();
      thread_.join();
    }
    close(socket_);
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  int port() const { return port_; }

 private:
  int socket_;
  int port_ = 0;
  std::jthread thread_;
};

// Gives `bytes` one at a time, 5 ms apart, then nothing, until the peer closes.
void trickle(int descriptor, const std::stop_token& stop, const std::string& bytes) {
  std::size_t at = 0;
  std::array<char, 4096> drain{};
  while (!stop.stop_requested()) {
    pollfd entry{descriptor, POLLIN, 0};
    if (poll(&entry, 1, 5) > 0 && recv(descriptor, drain.data(), drain.size(), 0) <= 0) return;
    if (at == bytes.size()) continue;
    if (send(descriptor, &bytes[at++], 1, MSG_NOSIGNAL) <= 0) return;
  }
}

class FetchAuthority : public ::testing::Test {
 protected:
  // The servers here write with OpenSSL's own socket calls, to peers that may have left.
  FetchAuthority() { static_cast<void>(std::signal(SIGPIPE, SIG_IGN)); }

  TestAuthority authority_ = TestAuthority::create();
  TestAuthority other_ = TestAuthority::create();
  std::string received_;  // by the server, after the handshake; read it when the listener is gone
  bool handshake_done_ = false;

  Listener::Serve serve(const KeyPair& leaf, const Certificate& root,
                        const Certificate* clients = nullptr) {
    const std::shared_ptr<SSL_CTX> context(
        make_server_tls(leaf.certificate, leaf.key, root, clients).value().release(), SSL_CTX_free);
    return [this, context](int descriptor, const std::stop_token&) {
      const SslPtr connection(SSL_new(context.get()));
      SSL_set_fd(connection.get(), descriptor);
      handshake_done_ = SSL_accept(connection.get()) == 1;
      std::array<char, 256> buffer{};
      const int size = SSL_read(connection.get(), buffer.data(), buffer.size());
      if (size > 0) received_.assign(buffer.data(), static_cast<std::size_t>(size));
      drain_openssl_errors();
    };
  }
  Digest wanted() const { return authority_.certificate().fingerprint(); }

  // The wait is ended by its deadline of 300 ms, not by the peer: none of these ever gives up.
  void expect_timeout(const Listener& listener) {
    const auto result = fetch_authority("127.0.0.1", listener.port(), wanted(), 300);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kUnavailable);
    EXPECT_EQ(result.error().reason, "timeout") << result.error().message;
    EXPECT_NE(result.error().message.find("300 ms"), std::string::npos) << result.error().message;
  }
};

}  // namespace

TEST_F(FetchAuthority, ReturnsTheRootOfTheCodeAndSendsNothing) {
  {
    const Listener listener(serve(authority_.server(), authority_.certificate()));
    const auto found = fetch_authority("127.0.0.1", listener.port(), wanted(), 10'000);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->pem(), authority_.certificate().pem());
  }
  EXPECT_TRUE(handshake_done_);
  EXPECT_EQ(received_, "");
}

TEST_F(FetchAuthority, WorksByNameToo) {
  const Listener listener(serve(authority_.server(), authority_.certificate()));
  const auto found = fetch_authority("localhost", listener.port(), wanted(), 10'000);
  ASSERT_TRUE(found) << found.error().message;
}

TEST_F(FetchAuthority, WorksOnAPortThatWantsClientCertificates) {
  const Listener listener(
      serve(authority_.server(), authority_.certificate(), &authority_.certificate()));
  EXPECT_TRUE(fetch_authority("127.0.0.1", listener.port(), wanted(), 10'000));
}

TEST_F(FetchAuthority, RefusesServerOfAnotherAuthority) {
  {
    const Listener listener(serve(other_.server(), other_.certificate()));
    const auto found = fetch_authority("127.0.0.1", listener.port(), wanted(), 10'000);
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, ErrorCode::kUnauthenticated);
    EXPECT_EQ(found.error().reason, "wrong_authority");
    EXPECT_NE(found.error().message.find("not the one in the enrolment code"), std::string::npos);
  }
  EXPECT_EQ(received_, "");
}

TEST_F(FetchAuthority, RefusesServerThatBorrowsTheRoot) {
  const Listener listener(serve(other_.server(), authority_.certificate()));
  const auto found = fetch_authority("127.0.0.1", listener.port(), wanted(), 10'000);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kUnauthenticated);
  EXPECT_EQ(found.error().reason, "server_not_verified");
}

TEST_F(FetchAuthority, RefusesFingerprintOfTheLeaf) {
  const KeyPair leaf = authority_.server();
  const Listener listener(serve(leaf, authority_.certificate()));
  const auto found =
      fetch_authority("127.0.0.1", listener.port(), leaf.certificate.fingerprint(), 10'000);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kUnauthenticated);
}

TEST_F(FetchAuthority, RefusesServerOfAnotherHostExpiredOrWithoutUsage) {
  OddLeaf odd;
  odd.extended_key_usage = nullptr;
  odd.alternative_names = "IP:127.0.0.1";
  for (const KeyPair& leaf :
       {authority_.server({"other.example.org"}),
        authority_.server({"127.0.0.1"}, now() - kDay * 3), odd.make(authority_)}) {
    const Listener listener(serve(leaf, authority_.certificate()));
    const auto found = fetch_authority("127.0.0.1", listener.port(), wanted(), 10'000);
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, ErrorCode::kUnauthenticated);
    EXPECT_EQ(found.error().reason, "server_not_verified") << found.error().message;
  }
}

TEST_F(FetchAuthority, GivesUpOnSilentPeer) {
  expect_timeout(Listener(nullptr));  // connects, but nobody accepts
  expect_timeout(
      Listener([](int descriptor, const std::stop_token& stop) { trickle(descriptor, stop, ""); }));
}

TEST_F(FetchAuthority, GivesUpOnTricklingPeer) {
  // The head of a record of 16,000 bytes, then its bytes: at this rate it would take 80 seconds.
  const std::string record = std::string("\x16\x03\x03\x3e\x80", 5) + std::string(16'000, '\x02');
  expect_timeout(Listener(
      [&](int descriptor, const std::stop_token& stop) { trickle(descriptor, stop, record); }));
}

TEST_F(FetchAuthority, ReportsPeerThatDoesNotSpeakTls) {
  for (const std::string& answer :
       {std::string("HTTP/1.1 400 Bad Request\r\n\r\n"), std::string()}) {
    const Listener listener([&](int descriptor, const std::stop_token&) {
      send(descriptor, answer.data(), answer.size(), MSG_NOSIGNAL);
      shutdown(descriptor, SHUT_WR);
    });
    const auto found = fetch_authority("127.0.0.1", listener.port(), wanted(), 10'000);
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, ErrorCode::kUnavailable) << found.error().message;
    EXPECT_NE(found.error().message.find("127.0.0.1"), std::string::npos);
  }
}

TEST_F(FetchAuthority, ReportsClosedPortAndBadAddresses) {
  int port = 0;
  { port = Listener(nullptr).port(); }
  const auto closed = fetch_authority("127.0.0.1", port, wanted(), 10'000);
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().code, ErrorCode::kUnavailable);
  for (const std::string& host :
       {std::string(), std::string("a b"), std::string("127.0.0.1\0", 10)}) {
    EXPECT_FALSE(fetch_authority(host, port, wanted(), 10'000));
  }
  for (const int bad : {0, -1, 65536})
    EXPECT_FALSE(fetch_authority("127.0.0.1", bad, wanted(), 10'000));
}
