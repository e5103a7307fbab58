#include <fmt/format.h>

#include <array>
#include <chrono>

#include "certs/host.h"
#include "certs/openssl.h"
#include "certs/peer_check.h"
#include "certs/timed_socket.h"
#include "certs/tls.h"
#include "certs/tls_error.h"
#include "certs/tls_settings.h"

namespace muster {
namespace {

constexpr std::string_view kWrongAuthority = "wrong_authority";

// Lets every certificate pass: whom the server belongs to is judged after the handshake, by
// fingerprint.
int accept_any(X509_STORE_CTX* verification, void* /*argument*/) {
  X509_STORE_CTX_set_error(verification, X509_V_OK);
  return 1;
}

// TLS over two memory buffers; the socket is ours, so that every wait has its deadline.
class Handshake {
 public:
  static Result<Handshake> create(const std::string& host) {
    TlsContext context(SSL_CTX_new(TLS_client_method()));
    if (!context) return openssl_error("make a TLS context");
    MUSTER_TRY_STATUS(apply_tls_settings(context.get()));
    SSL_CTX_set_cert_verify_callback(context.get(), accept_any, nullptr);
    SslPtr connection(SSL_new(context.get()));
    BioPtr input(BIO_new(BIO_s_mem()));
    BioPtr output(BIO_new(BIO_s_mem()));
    if (!connection || !input || !output) return openssl_error("make a TLS connection");
    if (is_dns_name(host) && !is_ip_address(host) &&
        SSL_set_tlsext_host_name(connection.get(), host.c_str()) != 1) {
      return openssl_error("name the server");
    }
    // An empty buffer means "later", not "closed".
    BIO_set_mem_eof_return(input.get(), -1);
    SSL_set0_rbio(connection.get(), input.release());
    SSL_set0_wbio(connection.get(), output.release());
    SSL_set_connect_state(connection.get());
    return Handshake(std::move(connection));
  }

  Status run(TimedSocket& socket) {
    std::array<std::byte, 4096> buffer{};
    while (true) {
      const int result = SSL_do_handshake(connection_.get());
      const int wanted = SSL_get_error(connection_.get(), result);
      if (result != 1 && wanted != SSL_ERROR_WANT_READ) {
        socket.try_send(pending());
        return Error{ErrorCode::kUnavailable,
                     describe_tls_failure(TlsPeer::kServer, connection_.get()), "no_tls"};
      }
      MUSTER_TRY_STATUS(socket.send(pending()));
      if (result == 1) return {};
      MUSTER_TRY(const std::size_t size, socket.receive(buffer));
      if (size == 0) {
        return Error{ErrorCode::kUnavailable,
                     "the server closed the connection in the TLS handshake", "no_tls"};
      }
      if (BIO_write(SSL_get_rbio(connection_.get()), buffer.data(), static_cast<int>(size)) !=
          static_cast<int>(size)) {
        return openssl_error("take the server's bytes");
      }
    }
  }

  void say_goodbye(TimedSocket& socket) {
    static_cast<void>(SSL_shutdown(connection_.get()));
    socket.try_send(pending());
    drain_openssl_errors();
  }

  const SSL* connection() const { return connection_.get(); }

 private:
  explicit Handshake(SslPtr connection) : connection_(std::move(connection)) {}

  // What OpenSSL wants to send; valid until the next call.
  ByteView pending() {
    BIO* output = SSL_get_wbio(connection_.get());
    outgoing_.resize(BIO_ctrl_pending(output));
    if (!outgoing_.empty()) {
      BIO_read(output, outgoing_.data(), static_cast<int>(outgoing_.size()));
    }
    return outgoing_;
  }

  SslPtr connection_;
  Bytes outgoing_;
};

// Whether the server's own certificate comes from `authority`, for this host, now: an error here is
// clearer than the one a later connection would give.
Status check_server(X509* leaf, const Certificate& authority, const std::string& host) {
  MUSTER_TRY(const StorePtr store, make_store(authority));
  const StoreContextPtr verification(X509_STORE_CTX_new());
  if (!verification || X509_STORE_CTX_init(verification.get(), store.get(), leaf, nullptr) != 1 ||
      X509_STORE_CTX_set_purpose(verification.get(), X509_PURPOSE_SSL_SERVER) != 1) {
    return openssl_error("check the server's certificate");
  }
  X509_VERIFY_PARAM* rules = X509_STORE_CTX_get0_param(verification.get());
  const int set = is_ip_address(host)
                      ? X509_VERIFY_PARAM_set1_ip_asc(rules, host.c_str())
                      : X509_VERIFY_PARAM_set1_host(rules, host.data(), host.size());
  if (set != 1) return openssl_error("check the server's certificate");
  const bool good = X509_verify_cert(verification.get()) == 1;
  const int verdict = X509_STORE_CTX_get_error(verification.get());
  drain_openssl_errors();
  const bool usage = (X509_get_extension_flags(leaf) & EXFLAG_XKUSAGE) != 0;
  if (good && usage) return {};
  return Error{
      ErrorCode::kUnauthenticated,
      fmt::format(
          "the server at \"{}\" has the right authority, but its own certificate is refused: "
          "{}; ask the operator to give the server a certificate for this address",
          printable(host), good ? "no extended key usage" : X509_verify_cert_error_string(verdict)),
      "server_not_verified"};
}

}  // namespace

Result<Certificate> fetch_authority(const std::string& host, int port, const Digest& fingerprint,
                                    int timeout_ms) {
  const std::string where = fmt::format("server {}:{}", printable(host), port);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  const auto explain = [&](Error error) {
    if (error.reason == "timeout")
      error.message = fmt::format("no TLS answer within {} ms", timeout_ms);
    return with_context(std::move(error), where);
  };
  // Stops a name with a NUL byte or the like before it is looked up.
  if (!is_ip_address(host) && !is_dns_name(host)) {
    return Error{ErrorCode::kInvalidArgument,
                 where + ": the host is neither a DNS name nor an IP address", "bad_host"};
  }
  MUSTER_TRY(Handshake handshake, Handshake::create(host));
  auto socket = TimedSocket::connect(host, port, deadline);
  if (!socket) return explain(std::move(socket).error());
  if (auto done = handshake.run(*socket); !done) return explain(std::move(done).error());

  const X509Ptr leaf(SSL_get1_peer_certificate(handshake.connection()));
  STACK_OF(X509)* chain = SSL_get_peer_cert_chain(handshake.connection());
  handshake.say_goodbye(*socket);
  for (int i = 0; leaf && i < sk_X509_num(chain); ++i) {
    const Certificate candidate = Certificate::from_native(sk_X509_value(chain, i));
    if (candidate.fingerprint() != fingerprint) continue;
    MUSTER_TRY_STATUS(check_server(leaf.get(), candidate, host));
    return candidate;
  }
  return Error{
      ErrorCode::kUnauthenticated,
      fmt::format(
          "{}: its authority is not the one in the enrolment code (fingerprint {}...); nothing "
          "was sent to it; check the address, or ask the operator for a new code",
          where, fingerprint.hex().substr(0, 16)),
      std::string(kWrongAuthority)};
}

}  // namespace muster
