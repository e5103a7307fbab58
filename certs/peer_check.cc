#include "certs/peer_check.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <openssl/err.h>

#include <chrono>
#include <memory>

namespace muster {
namespace {

std::string format_time(WallTime time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)));
}

void free_note(void* /*parent*/, void* note, CRYPTO_EX_DATA* /*data*/, int /*index*/,
               long /*number*/, void* /*argument*/) {
  std::unique_ptr<std::string>(static_cast<std::string*>(note));
}

// OpenSSL's number for our note on a connection; asked for once a process.
int note_index() {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, free_note);
  return index;
}

// A failed handshake does not keep the peer's certificate, so what a log needs of it is kept here.
void keep_note(SSL* connection, X509* peer) {
  if (connection == nullptr || peer == nullptr || note_index() < 0) return;
  const Certificate certificate = Certificate::from_native(peer);
  auto note = std::make_unique<std::string>(
      fmt::format("serial {}, valid from {} until {}; our clock says {}", certificate.serial(),
                  format_time(certificate.not_before()), format_time(certificate.not_after()),
                  format_time(std::chrono::system_clock::now())));
  const std::unique_ptr<std::string> old(
      static_cast<std::string*>(SSL_get_ex_data(connection, note_index())));
  if (SSL_set_ex_data(connection, note_index(), note.get()) == 1) {
    static_cast<void>(note.release());
  } else {
    SSL_set_ex_data(connection, note_index(), nullptr);
  }
}

bool has_usage(X509* leaf, std::uint32_t usage) {
  return (X509_get_extension_flags(leaf) & EXFLAG_XKUSAGE) != 0 &&
         (X509_get_extended_key_usage(leaf) & usage) != 0;
}

// What OpenSSL's verification leaves out, for a chain that passed it; X509_V_OK when all is well.
int judge_further(X509_STORE_CTX* verification, const SSL* connection) {
  if (connection == nullptr) return X509_V_ERR_UNSPECIFIED;
  if (sk_X509_num(X509_STORE_CTX_get0_chain(verification)) != 2) {
    return X509_V_ERR_CERT_CHAIN_TOO_LONG;
  }
  const std::uint32_t usage = SSL_is_server(connection) == 1 ? XKU_SSL_CLIENT : XKU_SSL_SERVER;
  if (!has_usage(X509_STORE_CTX_get0_cert(verification), usage)) return X509_V_ERR_INVALID_PURPOSE;
  return X509_V_OK;
}

// In the place of X509_verify_cert. OpenSSL turns the error that is left in `verification` into the
// alert.
int verify_peer(X509_STORE_CTX* verification, void* /*argument*/) {
  auto* connection = static_cast<SSL*>(
      X509_STORE_CTX_get_ex_data(verification, SSL_get_ex_data_X509_STORE_CTX_idx()));
  if (X509_verify_cert(verification) == 1) {
    const int verdict = judge_further(verification, connection);
    if (verdict == X509_V_OK) return 1;
    X509_STORE_CTX_set_error(verification, verdict);
  } else if (X509_STORE_CTX_get_error(verification) == X509_V_OK) {
    // A verification that broke off without a verdict must not read as a good one.
    X509_STORE_CTX_set_error(verification, X509_V_ERR_UNSPECIFIED);
  }
  keep_note(connection, X509_STORE_CTX_get0_cert(verification));
  return 0;
}

}  // namespace

Result<StorePtr> make_store(const Certificate& authority) {
  StorePtr store(X509_STORE_new());
  if (!store || X509_STORE_add_cert(store.get(), authority.native()) != 1 ||
      X509_STORE_set_flags(store.get(), X509_V_FLAG_X509_STRICT) != 1) {
    return openssl_error("trust the authority");
  }
  return store;
}

Status check_peers_against(SSL_CTX* context, const Certificate& authority) {
  MUSTER_TRY(const StorePtr store, make_store(authority));
  if (SSL_CTX_set1_verify_cert_store(context, store.get()) != 1) {
    return openssl_error("trust the authority");
  }
  // OpenSSL counts the certificates between leaf and trusted root. One, so that the root of another
  // authority is looked at and named as the fault; that it is none in a good chain is checked
  // apart.
  SSL_CTX_set_verify_depth(context, 1);
  if (X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_X509_STRICT) != 1) {
    return openssl_error("set the verification's rules");
  }
  SSL_CTX_set_cert_verify_callback(context, verify_peer, nullptr);
  return {};
}

std::string rejected_peer(const SSL* connection) {
  if (connection == nullptr || note_index() < 0) return {};
  const auto* note = static_cast<const std::string*>(SSL_get_ex_data(connection, note_index()));
  return note != nullptr ? *note : std::string();
}

}  // namespace muster
