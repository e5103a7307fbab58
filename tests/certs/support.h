#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "certs/authority.h"
#include "certs/certificate_builder.h"
#include "certs/openssl.h"
#include "certs/tls.h"
#include "certs/tls_error.h"

// What the tests of certs share: folders that go away, an authority whose key the test holds too,
// certificates that Muster would never issue, and a handshake between two contexts over a socket
// pair.
namespace muster::testing {

using std::chrono::hours;
inline constexpr hours kDay{24};

inline WallTime now() {
  return std::chrono::system_clock::now();
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "muster-certs-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

struct TestAuthority {
  Authority authority;
  PrivateKey key;

  static TestAuthority create() {
    const TemporaryFolder folder;
    Authority authority = Authority::create(now()).value();
    EXPECT_TRUE(authority.write(folder.path()));
    return {std::move(authority), PrivateKey::read(folder.path() / "authority.key").value()};
  }
  const Certificate& certificate() const { return authority.certificate(); }
  KeyPair device(const std::string& name = "device-01", WallTime at = now(),
                 hours life = kDay) const {
    return issue_key_pair(authority, {Role::kDevice, name}, at, life).value();
  }
  KeyPair server(const std::vector<std::string>& hosts = {"localhost", "127.0.0.1"},
                 WallTime at = now(), hours life = kDay) const {
    return issue_key_pair(authority, {Role::kServer, "server"}, at, life, hosts).value();
  }
};

// A leaf of any shape, signed by any certificate's key.
struct OddLeaf {
  const char* basic_constraints = "critical,CA:FALSE";
  const char* key_usage = "critical,digitalSignature";
  const char* extended_key_usage = "clientAuth";  // null: none at all
  const char* alternative_names = "URI:urn:muster:device:device-01";
  WallTime not_before = now() - hours(1);
  WallTime not_after = now() + kDay;

  KeyPair make(const Certificate& issuer, const PrivateKey& issuer_key) const {
    PrivateKey key = PrivateKey::generate().value();
    CertificateBuilder builder(issuer.native());
    builder.set_validity(not_before, not_after);
    builder.set_common_name("device-01");
    builder.set_public_key(key.native());
    builder.add_extension(NID_basic_constraints, basic_constraints);
    builder.add_extension(NID_key_usage, key_usage);
    if (extended_key_usage != nullptr) builder.add_extension(NID_ext_key_usage, extended_key_usage);
    builder.add_extension(NID_subject_key_identifier, "hash");
    builder.add_extension(NID_authority_key_identifier, "keyid:always");
    if (alternative_names != nullptr) {
      builder.add_extension(NID_subject_alt_name, alternative_names);
    }
    Certificate certificate = builder.sign(issuer_key.native()).value();
    return {std::move(key), std::move(certificate)};
  }
  KeyPair make(const TestAuthority& issuer) const { return make(issuer.certificate(), issuer.key); }
};

// How a handshake and one message of the server ended, as each side saw it.
struct Outcome {
  bool server_finished = false;
  bool client_finished = false;
  std::string received;  // by the client
  std::optional<int> alert_at_client;
  std::optional<int> alert_at_server;
  long client_verdict = X509_V_OK;
  std::string client_failure;
  std::string server_failure;
  TlsFailure client_detail;
  int protocol = 0;
  bool resumable = false;
  int chain_length = 0;  // of the server, as the client got it
};

namespace detail {

inline void note_alert(const SSL* connection, int where, int value) {
  if ((where & SSL_CB_READ_ALERT) != SSL_CB_READ_ALERT) return;
  auto* alert = static_cast<std::optional<int>*>(SSL_get_app_data(connection));
  if ((value & 0xff) != SSL_AD_CLOSE_NOTIFY) *alert = value & 0xff;
}

// One side of the pair; `step` is called in turns until neither side moves.
struct Side {
  SslPtr connection;
  std::optional<int> alert;
  std::string failure;
  TlsFailure detail;
  TlsPeer peer;
  bool finished = false;
  bool failed = false;

  Side(SSL_CTX* context, int descriptor, TlsPeer other)
      : connection(SSL_new(context)), peer(other) {
    SSL_set_fd(connection.get(), descriptor);
    SSL_set_app_data(connection.get(), &alert);
    SSL_set_info_callback(connection.get(), note_alert);
  }
  // True when `result` was a success; keeps the failure's description when it was one.
  bool check(int result) {
    if (result > 0) return true;
    const int error = SSL_get_error(connection.get(), result);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return false;
    failed = true;
    detail = take_tls_failure(peer, connection.get());
    failure = detail.message;
    return false;
  }
  void handshake() {
    if (!finished && !failed) finished = check(SSL_do_handshake(connection.get()));
  }
};

}  // namespace detail

inline Outcome handshake(SSL_CTX* server_context, SSL_CTX* client_context,
                         const char* host = "localhost") {
  std::array<int, 2> sockets{};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets.data()), 0);
  Outcome outcome;
  {
    detail::Side server(server_context, sockets[0], TlsPeer::kClient);
    detail::Side client(client_context, sockets[1], TlsPeer::kServer);
    SSL_set_accept_state(server.connection.get());
    SSL_set_connect_state(client.connection.get());
    if (host != nullptr) SSL_set1_host(client.connection.get(), host);
    // Four turns are enough for TLS 1.3; the rest is room for large certificates.
    for (int turn = 0; turn < 64; ++turn) {
      client.handshake();
      server.handshake();
    }
    if (server.finished) server.check(SSL_write(server.connection.get(), "hello", 5));
    if (client.finished) {
      std::array<char, 16> buffer{};
      const int size = SSL_read(client.connection.get(), buffer.data(), buffer.size());
      if (client.check(size))
        outcome.received.assign(buffer.data(), static_cast<std::size_t>(size));
    }
    // An alert of the client reaches the server with its next read.
    std::array<char, 16> buffer{};
    if (server.finished)
      server.check(SSL_read(server.connection.get(), buffer.data(), buffer.size()));
    outcome.server_finished = server.finished;
    outcome.client_finished = client.finished;
    outcome.alert_at_client = client.alert;
    outcome.alert_at_server = server.alert;
    outcome.client_verdict = SSL_get_verify_result(client.connection.get());
    outcome.client_failure = client.failure;
    outcome.server_failure = server.failure;
    outcome.client_detail = client.detail;
    outcome.protocol = SSL_version(client.connection.get());
    const SSL_SESSION* session = SSL_get0_session(client.connection.get());
    outcome.resumable = session != nullptr && SSL_SESSION_is_resumable(session) == 1;
    STACK_OF(X509)* chain = SSL_get_peer_cert_chain(client.connection.get());
    outcome.chain_length = chain != nullptr ? sk_X509_num(chain) : 0;
  }
  close(sockets[0]);
  close(sockets[1]);
  return outcome;
}

inline TlsContext client_context(const Certificate& authority, const Certificate* leaf = nullptr,
                                 const PrivateKey* key = nullptr) {
  TlsContext context(SSL_CTX_new(TLS_client_method()));
  const Status configured = configure_client_tls(context.get(), authority, leaf, key);
  EXPECT_TRUE(configured) << (configured ? "" : configured.error().message);
  return context;
}

}  // namespace muster::testing
