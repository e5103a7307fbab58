#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "certs/authority.h"
#include "certs/tls.h"
#include "server/http/head_parser.h"

// A client that says exactly what a test wants said, well-formed or not. Every wait has a deadline.
namespace muster::testing {

using Milliseconds = std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

inline constexpr Milliseconds kPatience{8'000};

inline int open_socket() {
  return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

inline bool connect_socket(int descriptor, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
}

// A TCP connection without TLS.
class RawClient {
 public:
  explicit RawClient(int port) : descriptor_(open_socket()) {
    connected_ = connect_socket(descriptor_, port);
  }
  RawClient(RawClient&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), connected_(other.connected_) {}
  RawClient& operator=(RawClient&&) = delete;
  ~RawClient() { hang_up(); }

  bool connected() const { return connected_; }
  int descriptor() const { return descriptor_; }
  void hang_up() {
    if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
  }
  bool send(const std::string& text) {
    return ::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  bool wait_readable(Milliseconds patience) const {
    pollfd wanted{descriptor_, POLLIN, 0};
    return poll(&wanted, 1, static_cast<int>(patience.count())) == 1;
  }
  // All bytes until the peer closes (or resets); nullopt when it does not in time.
  std::optional<std::string> read_to_end(Milliseconds patience = kPatience) {
    const auto deadline = SteadyClock::now() + patience;
    std::string all;
    char buffer[4096];
    while (SteadyClock::now() < deadline) {
      if (!wait_readable(std::chrono::duration_cast<Milliseconds>(deadline - SteadyClock::now())))
        break;
      const ssize_t got = recv(descriptor_, buffer, sizeof(buffer), 0);
      if (got <= 0) return all;
      all.append(buffer, static_cast<std::size_t>(got));
    }
    return std::nullopt;
  }

 private:
  int descriptor_;
  bool connected_ = false;
};

struct Reply {
  int status = 0;
  std::map<std::string, std::string> headers;
  std::string body;

  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
  bool closes() const { return header("connection") == "close"; }
};

class TlsClient {
 public:
  struct Setup {
    const Certificate* authority = nullptr;
    const KeyPair* pair = nullptr;  // the client's own; null: none
    int version = TLS1_3_VERSION;
  };

  TlsClient(int port, const Setup& setup) : raw_(port), context_(SSL_CTX_new(TLS_client_method())) {
    SSL_CTX_set_security_level(context_.get(), setup.version < TLS1_2_VERSION ? 0 : 1);
    if (setup.version < TLS1_2_VERSION) SSL_CTX_set_cipher_list(context_.get(), "ALL:@SECLEVEL=0");
    SSL_CTX_set_min_proto_version(context_.get(), setup.version);
    SSL_CTX_set_max_proto_version(context_.get(), setup.version);
    if (setup.authority != nullptr) {
      X509_STORE_add_cert(SSL_CTX_get_cert_store(context_.get()), setup.authority->native());
      SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    }
    if (setup.pair != nullptr) {
      SSL_CTX_use_certificate(context_.get(), setup.pair->certificate.native());
      SSL_CTX_use_PrivateKey(context_.get(), setup.pair->key.native());
    }
    const timeval patience{kPatience.count() / 1000, 0};
    setsockopt(raw_.descriptor(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(raw_.descriptor(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    const int yes = 1;
    setsockopt(raw_.descriptor(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    ssl_ = SSL_new(context_.get());
    SSL_set_fd(ssl_, raw_.descriptor());
    SSL_set_app_data(ssl_, this);
    SSL_set_info_callback(ssl_, note_alert);
    const QuietPipe quiet;
    handshaken_ = raw_.connected() && SSL_connect(ssl_) == 1;
  }
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;
  ~TlsClient() { SSL_free(ssl_); }

  bool handshaken() const { return handshaken_; }
  std::optional<int> alert() const { return alert_; }
  SSL* native() { return ssl_; }
  const RawClient& raw() const { return raw_; }
  void hang_up() { raw_.hang_up(); }

  bool send(const std::string& text) {
    const QuietPipe quiet;
    ERR_clear_error();
    return text.empty() || SSL_write(ssl_, text.data(), static_cast<int>(text.size())) > 0;
  }

  // The next response; nullopt when the connection ends or is silent instead.
  std::optional<Reply> read() {
    std::size_t end;
    while ((end = in_.find("\r\n\r\n")) == std::string::npos) {
      if (!fill()) return std::nullopt;
    }
    Reply reply;
    std::string head = in_.substr(0, end + 2);
    in_.erase(0, end + 4);
    reply.status = std::stoi(head.substr(9, 3));
    for (auto start = head.find("\r\n") + 2; start < head.size();) {
      const auto stop = head.find("\r\n", start);
      const auto colon = head.find(": ", start);
      reply.headers[http::to_lower(head.substr(start, colon - start))] =
          head.substr(colon + 2, stop - colon - 2);
      start = stop + 2;
    }
    if (reply.headers.count("content-length") != 0) {
      const auto length = std::stoull(reply.headers["content-length"]);
      while (in_.size() < length) {
        if (!fill()) return std::nullopt;
      }
      reply.body = in_.substr(0, length);
      in_.erase(0, length);
    }
    return reply;
  }
  std::optional<Reply> ask(const std::string& text) {
    send(text);
    return read();
  }
  // True when the server ends the connection, and says nothing more before it.
  bool is_closed() { return in_.empty() && !fill() && !timed_out_; }

 private:
  struct FreeContext {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };

  // Writing to a closed socket is no reason for a signal; in this thread only.
  struct QuietPipe {
    sigset_t before;
    QuietPipe() {
      sigset_t pipe;
      sigemptyset(&pipe);
      sigaddset(&pipe, SIGPIPE);
      pthread_sigmask(SIG_BLOCK, &pipe, &before);
    }
    ~QuietPipe() {
      sigset_t pipe;
      sigemptyset(&pipe);
      sigaddset(&pipe, SIGPIPE);
      const timespec none{};
      while (sigtimedwait(&pipe, nullptr, &none) > 0) {
      }
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
  };

  static void note_alert(const SSL* ssl, int where, int value) {
    if ((where & SSL_CB_READ_ALERT) != SSL_CB_READ_ALERT) return;
    if ((value & 0xff) == SSL_AD_CLOSE_NOTIFY) return;
    static_cast<TlsClient*>(SSL_get_app_data(ssl))->alert_ = value & 0xff;
  }

  bool fill() {
    const QuietPipe quiet;
    ERR_clear_error();
    char buffer[16 * 1024];
    const int got = SSL_read(ssl_, buffer, sizeof(buffer));
    if (got <= 0) {
      timed_out_ = SSL_get_error(ssl_, got) == SSL_ERROR_WANT_READ;
      return false;
    }
    in_.append(buffer, static_cast<std::size_t>(got));
    return true;
  }

  RawClient raw_;
  std::unique_ptr<SSL_CTX, FreeContext> context_;
  SSL* ssl_ = nullptr;
  bool handshaken_ = false;
  bool timed_out_ = false;
  std::optional<int> alert_;
  std::string in_;
};

}  // namespace muster::testing
