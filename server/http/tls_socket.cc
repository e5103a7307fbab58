#include "server/http/tls_socket.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <new>
#include <system_error>
#include <utility>

#include "certs/tls_error.h"
#include "core/base/invariant.h"

namespace muster::http {
namespace {

// A peer may change its keys now and then; more often is only meant to cost us time.
constexpr int kMostKeyUpdates = 32;

int descriptor_of(BIO* bio) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio)));
}

int bio_read(BIO* bio, char* into, int length) {
  BIO_clear_retry_flags(bio);
  if (into == nullptr || length <= 0) return 0;
  ssize_t got;
  do {
    got = ::recv(descriptor_of(bio), into, static_cast<std::size_t>(length), 0);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) BIO_set_retry_read(bio);
  return static_cast<int>(got);
}

int bio_write(BIO* bio, const char* from, int length) {
  BIO_clear_retry_flags(bio);
  if (from == nullptr || length <= 0) return 0;
  ssize_t sent;
  do {
    sent = ::send(descriptor_of(bio), from, static_cast<std::size_t>(length), MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

long bio_control(BIO*, int command, long, void*) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

// So that what is found after a call is of that call.
void forget_errors() {
  ERR_clear_error();
  errno = 0;
}

}  // namespace

TlsServer::TlsServer(TlsContext context)
    : context_(std::move(context)), method_(BIO_meth_new(BIO_TYPE_SOURCE_SINK, "muster socket")) {
  if (context_ == nullptr || method_ == nullptr)
    invariant_broken("front door without a TLS context");
  BIO_meth_set_read(method_, bio_read);
  BIO_meth_set_write(method_, bio_write);
  BIO_meth_set_ctrl(method_, bio_control);
}

TlsServer::~TlsServer() {
  BIO_meth_free(method_);
}

bool TlsServer::wants_certificate() const {
  return (SSL_CTX_get_verify_mode(context_.get()) & SSL_VERIFY_PEER) != 0;
}

TlsSocket::TlsSocket(const TlsServer& server, int descriptor)
    : ssl_(SSL_new(server.context_.get())) {
  BIO* bio = BIO_new(server.method_);
  if (ssl_ == nullptr || bio == nullptr) {
    SSL_free(ssl_);
    BIO_free(bio);
    throw std::bad_alloc();
  }
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)));
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_, bio, bio);
  SSL_set_accept_state(ssl_);
  SSL_set_mode(ssl_, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                         SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // One record a call: a flood of records without data must not keep the thread in one SSL_read.
  SSL_clear_mode(ssl_, SSL_MODE_AUTO_RETRY);
  SSL_set_read_ahead(ssl_, 0);
  SSL_set_msg_callback(ssl_, count_message);
  SSL_set_msg_callback_arg(ssl_, this);
}

TlsSocket::~TlsSocket() {
  SSL_free(ssl_);
}

void TlsSocket::count_message(int is_write, int, int type, const void* bytes, std::size_t length,
                              SSL*, void* self) {
  const bool is_key_update = type == SSL3_RT_HANDSHAKE && length > 0 &&
                             *static_cast<const unsigned char*>(bytes) == SSL3_MT_KEY_UPDATE;
  if (is_write == 0 && is_key_update) ++static_cast<TlsSocket*>(self)->key_updates_;
}

TlsSocket::Step TlsSocket::handshake() {
  forget_errors();
  const int result = SSL_do_handshake(ssl_);
  return result == 1 ? Step::kDone : explain(result);
}

TlsSocket::Transfer TlsSocket::read(std::span<char> into) {
  forget_errors();
  std::size_t bytes = 0;
  const int result = SSL_read_ex(ssl_, into.data(), into.size(), &bytes);
  if (key_updates_ > kMostKeyUpdates) {
    failure_ = "too many key updates";
    return {Step::kFailed, 0};
  }
  if (result == 1) return {Step::kDone, bytes};
  return {explain(result), 0};
}

TlsSocket::Transfer TlsSocket::write(std::string_view from) {
  forget_errors();
  std::size_t bytes = 0;
  const int result = SSL_write_ex(ssl_, from.data(), from.size(), &bytes);
  if (result == 1) return {Step::kDone, bytes};
  return {explain(result), 0};
}

void TlsSocket::say_goodbye() {
  forget_errors();
  if (SSL_is_init_finished(ssl_) && failure_.empty()) SSL_shutdown(ssl_);
  forget_errors();
}

TlsSocket::Step TlsSocket::explain(int result) {
  const int system_error = errno;
  switch (SSL_get_error(ssl_, result)) {
    case SSL_ERROR_WANT_READ:
      return Step::kWantRead;
    case SSL_ERROR_WANT_WRITE:
      return Step::kWantWrite;
    case SSL_ERROR_ZERO_RETURN:
      return Step::kClosed;
    case SSL_ERROR_SYSCALL:
      failure_ = system_error == 0 ? "the peer closed the connection"
                                   : std::generic_category().message(system_error);
      break;
    default:
      failure_ = describe_tls_failure(TlsPeer::kClient, ssl_);
  }
  forget_errors();
  return Step::kFailed;
}

std::optional<Certificate> TlsSocket::peer_certificate() const {
  X509* native = SSL_get0_peer_certificate(ssl_);
  if (native == nullptr) return std::nullopt;
  return Certificate::from_native(native);
}

}  // namespace muster::http
