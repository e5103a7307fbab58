#include "edge_client/tls_connection.h"

#include <arpa/inet.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "core/base/bytes.h"
#include "edge_client/socket_connect.h"

// OpenSSL works on two memory buffers here, and this file moves their bytes over the socket: so
// every wait is ours to bound and to interrupt, nothing raises SIGPIPE, and a peer's last words can
// be read after a failed write.
namespace muster {
namespace {

constexpr std::size_t kRecordBytes = 16384;  // RFC 8446 section 5.1

// RFC 8446 section 6.2: the alerts by which a server refuses a client's certificate.
bool is_about_certificate(int alert) {
  constexpr std::array kAlerts = {42, 43, 44, 45, 46, 48, 49, 51, 116};
  return std::find(kAlerts.begin(), kAlerts.end(), alert) != kAlerts.end();
}

bool is_address(const std::string& host) {
  std::array<unsigned char, 16> bytes;
  return inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

std::string date(WallTime time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  if (gmtime_r(&seconds, &parts) == nullptr) return "out of range";
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", parts);
}

std::string library_error() {
  const unsigned long code = ERR_peek_last_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "no reason given" : reason;
}

}  // namespace

CallClock::CallClock(std::chrono::milliseconds idle, std::chrono::milliseconds first_wait)
    : idle_(idle), first_wait_(first_wait), start_(Clock::now()), last_(start_) {}

void CallClock::sent(std::size_t bytes) {
  sent_ += bytes;
  last_ = Clock::now();
}

void CallClock::received(std::size_t bytes) {
  received_ += bytes;
  last_ = Clock::now();
}

CallClock::Clock::time_point CallClock::deadline() const {
  const auto idle_end =
      last_ + idle_ + (received_ == 0 ? first_wait_ : std::chrono::milliseconds{});
  const std::chrono::milliseconds earned(
      static_cast<std::int64_t>((sent_ + received_) * 1000 / kMinimumBytesPerSecond));
  return std::min(idle_end, start_ + idle_ + first_wait_ + earned);
}

void TlsConnection::FreeSsl::operator()(SSL* ssl) const {
  SSL_free(ssl);
}

// What OpenSSL tells only through callbacks: alerts, and the certificate that it refused.
class HandshakeNotes {
 public:
  static void note_alert(const SSL* ssl, int where, int value) {
    const int description = value & 0xff;
    if ((where & SSL_CB_READ_ALERT) != SSL_CB_READ_ALERT) return;
    if (description == SSL_AD_CLOSE_NOTIFY || description == SSL_AD_USER_CANCELLED) return;
    static_cast<TlsConnection*>(SSL_get_app_data(ssl))->alert_ = description;
  }

  // Changes no verdict.
  static int note_refusal(int accepted, X509_STORE_CTX* chain) {
    auto* ssl =
        static_cast<SSL*>(X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
    const auto context_callback = SSL_CTX_get_verify_callback(SSL_get_SSL_CTX(ssl));
    if (context_callback != nullptr) accepted = context_callback(accepted, chain);
    X509* certificate = X509_STORE_CTX_get_current_cert(chain);
    if (accepted == 0 && certificate != nullptr) {
      static_cast<TlsConnection*>(SSL_get_app_data(ssl))->refused_ =
          Certificate::from_native(certificate);
    }
    return accepted;
  }
};

Result<std::unique_ptr<TlsConnection>> TlsConnection::open(SSL_CTX* context,
                                                           const ServerUrl& server,
                                                           std::chrono::milliseconds timeout,
                                                           Interrupt& interrupt) {
  const auto deadline = CallClock::Clock::now() + timeout;
  MUSTER_TRY(const int socket, connect_socket(server, deadline, interrupt));
  std::unique_ptr<TlsConnection> connection(new TlsConnection(socket, interrupt));
  MUSTER_TRY_STATUS(connection->start(context, server));
  MUSTER_TRY_STATUS(connection->shake_hands(deadline));
  return connection;
}

Status TlsConnection::start(SSL_CTX* context, const ServerUrl& server) {
  peer_ = server.text();
  ERR_clear_error();
  ssl_.reset(SSL_new(context));
  BIO* from_peer = BIO_new(BIO_s_mem());
  BIO* to_peer = BIO_new(BIO_s_mem());
  if (!ssl_ || from_peer == nullptr || to_peer == nullptr) {
    BIO_free(from_peer);
    BIO_free(to_peer);
    return Error{ErrorCode::kInternal, fmt::format("TLS set-up: {}", library_error())};
  }
  BIO_set_mem_eof_return(from_peer, -1);
  SSL_set_bio(ssl_.get(), from_peer, to_peer);
  SSL_set_app_data(ssl_.get(), this);
  SSL_set_info_callback(ssl_.get(), HandshakeNotes::note_alert);
  SSL_set_verify(ssl_.get(), SSL_VERIFY_PEER, HandshakeNotes::note_refusal);
  SSL_set_hostflags(ssl_.get(),
                    X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  const bool named = !is_address(server.host);
  const int ok =
      named ? SSL_set1_host(ssl_.get(), server.host.c_str()) == 1 &&
                  SSL_set_tlsext_host_name(ssl_.get(), server.host.c_str()) == 1
            : X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_.get()), server.host.c_str());
  if (ok != 1)
    return Error{ErrorCode::kInvalidArgument, fmt::format("{}: host not usable", peer_), "bad_url"};
  return {};
}

Status TlsConnection::shake_hands(CallClock::Clock::time_point deadline) {
  while (true) {
    ERR_clear_error();
    const int done = SSL_connect(ssl_.get());
    const int problem = done == 1 ? SSL_ERROR_NONE : SSL_get_error(ssl_.get(), done);
    if (problem != SSL_ERROR_NONE && problem != SSL_ERROR_WANT_READ) {
      const Error error = failure("TLS handshake");
      (void)send_pending(deadline, false, nullptr);  // our alert, so that the server's log knows
      return error;
    }
    MUSTER_TRY_STATUS(send_pending(deadline, false, nullptr));
    if (done == 1) break;
    MUSTER_TRY_IN("TLS handshake with " + peer_, const std::size_t bytes,
                  receive(deadline, nullptr));
    if (bytes == 0) return failure("TLS handshake");
  }
  established_ = true;
  return {};
}

TlsConnection::~TlsConnection() {
  if (established_ && !peer_closed_ && !early_reply_) {
    SSL_shutdown(ssl_.get());
    std::array<char, 64> notice;
    const int bytes = BIO_read(SSL_get_wbio(ssl_.get()), notice.data(), notice.size());
    if (bytes > 0) {
      (void)!::send(socket_, notice.data(), static_cast<std::size_t>(bytes),
                    MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  }
  ::close(socket_);
}

Error TlsConnection::failure(std::string_view doing) const {
  const long verdict = SSL_get_verify_result(ssl_.get());
  if (!established_ && verdict != X509_V_OK) {
    std::string why = X509_verify_cert_error_string(verdict);
    const bool time =
        verdict == X509_V_ERR_CERT_NOT_YET_VALID || verdict == X509_V_ERR_CERT_HAS_EXPIRED;
    if (time && refused_) {
      why = fmt::format("{}: this device's clock is {}, certificate valid from {} to {}", why,
                        date(std::chrono::system_clock::now()), date(refused_->not_before()),
                        date(refused_->not_after()));
    }
    return {ErrorCode::kUnauthenticated,
            fmt::format("{} is not the server it should be, nothing was sent: {}", peer_, why),
            "server_not_verified"};
  }
  if (alert_ >= 0) {
    const char* name = SSL_alert_desc_string_long(alert_);
    // Before the handshake is done an alert is not authenticated: anyone on the way can send one.
    if (established_ && is_about_certificate(alert_)) {
      return {ErrorCode::kUnauthenticated,
              fmt::format("{}: certificate rejected ({}): {}", peer_, alert_, name),
              "certificate_rejected"};
    }
    return {ErrorCode::kUnavailable,
            fmt::format("{}: {}: alert {} ({})", peer_, doing, name, alert_), "tls_alert"};
  }
  if (peer_closed_) {
    return {ErrorCode::kUnavailable, fmt::format("{}: {}: the connection was closed", peer_, doing),
            "connection_closed"};
  }
  return {ErrorCode::kUnavailable, fmt::format("{}: {}: {}", peer_, doing, library_error()),
          "tls_failed"};
}

// Bytes from the socket into OpenSSL's buffer; 0 when the peer closed or reset.
Result<std::size_t> TlsConnection::receive(CallClock::Clock::time_point deadline,
                                           CallClock* clock) {
  std::array<char, kRecordBytes + 512> buffer;
  while (true) {
    const ssize_t bytes = ::recv(socket_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (bytes > 0) {
      BIO_write(SSL_get_rbio(ssl_.get()), buffer.data(), static_cast<int>(bytes));
      if (clock != nullptr) clock->received(static_cast<std::size_t>(bytes));
      return static_cast<std::size_t>(bytes);
    }
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes == 0 || errno != EAGAIN) {
      peer_closed_ = true;
      return std::size_t{0};
    }
    MUSTER_TRY([[maybe_unused]] const short events,
               wait_for(socket_, POLLIN, deadline, interrupt_));
  }
}

// Whether the peer has said something that ends the request: a reply, an alert, its end.
bool TlsConnection::reply_is_waiting() {
  std::array<char, kRecordBytes> buffer;
  while (true) {
    const ssize_t bytes = ::recv(socket_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) {
      if (bytes == 0 || errno != EAGAIN) peer_closed_ = true;
      break;
    }
    BIO_write(SSL_get_rbio(ssl_.get()), buffer.data(), static_cast<int>(bytes));
  }
  char byte = 0;
  ERR_clear_error();
  const int seen = SSL_peek(ssl_.get(), &byte, 1);
  if (seen == 1) early_reply_ = true;
  return seen == 1 || peer_closed_ || SSL_get_error(ssl_.get(), seen) != SSL_ERROR_WANT_READ;
}

// OpenSSL's output to the socket.
Status TlsConnection::send_pending(CallClock::Clock::time_point deadline, bool watch_for_reply,
                                   CallClock* clock) {
  BIO* to_peer = SSL_get_wbio(ssl_.get());
  char* data = nullptr;
  auto left = static_cast<std::size_t>(BIO_get_mem_data(to_peer, &data));
  while (left > 0) {
    const ssize_t bytes = ::send(socket_, data, left, MSG_NOSIGNAL | MSG_DONTWAIT);
    const bool blocked = bytes < 0 && errno == EAGAIN;
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes > 0) {
      data += bytes;
      left -= static_cast<std::size_t>(bytes);
      if (clock != nullptr) clock->sent(static_cast<std::size_t>(bytes));
    } else if (!blocked) {
      (void)reply_is_waiting();  // the peer's last words: a reply, or the alert that says why
      if (early_reply_) return {};
      peer_closed_ = true;
      return failure("sending");
    }
    if (!blocked) continue;
    const short events = watch_for_reply ? POLLOUT | POLLIN : POLLOUT;
    const auto until = clock != nullptr ? clock->deadline() : deadline;
    MUSTER_TRY(const short ready, wait_for(socket_, events, until, interrupt_));
    if ((ready & POLLIN) != 0 && reply_is_waiting()) {
      return early_reply_ ? Status{} : failure("sending");
    }
  }
  BIO_reset(to_peer);
  return {};
}

Result<std::size_t> TlsConnection::read(char* buffer, std::size_t size, CallClock& clock) {
  while (true) {
    ERR_clear_error();
    std::size_t bytes = 0;
    const int done = SSL_read_ex(ssl_.get(), buffer, size, &bytes);
    if (done == 1) return bytes;
    const int problem = SSL_get_error(ssl_.get(), done);
    if (problem == SSL_ERROR_ZERO_RETURN) {
      peer_closed_ = true;
      return std::size_t{0};
    }
    if (problem != SSL_ERROR_WANT_READ || peer_closed_) return failure("waiting for the reply");
    if (!early_reply_) MUSTER_TRY_STATUS(send_pending(clock.deadline(), false, &clock));
    MUSTER_TRY(const std::size_t received, receive(clock.deadline(), &clock));
    if (received == 0) return failure("waiting for the reply");
  }
}

Status TlsConnection::write(const char* data, std::size_t size, CallClock& clock) {
  while (size > 0 && !early_reply_) {
    const std::size_t part = std::min(size, kRecordBytes);
    ERR_clear_error();
    std::size_t written = 0;
    if (SSL_write_ex(ssl_.get(), data, part, &written) != 1) return failure("sending");
    MUSTER_TRY_STATUS(send_pending(clock.deadline(), true, &clock));
    if (early_reply_) break;
    data += written;
    size -= written;
    if (size > 0 && reply_is_waiting() && !early_reply_) return failure("sending");
  }
  return {};
}

bool TlsConnection::is_idle() {
  return !reply_is_waiting() && !early_reply_;
}

}  // namespace muster
