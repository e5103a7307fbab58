#include "certs/tls_error.h"

#include <fmt/format.h>
#include <openssl/err.h>

#include <algorithm>
#include <string_view>

#include "certs/openssl.h"
#include "certs/peer_check.h"

namespace muster {
namespace {

std::string_view alert_name(int alert) {
  // OpenSSL 3.0 does not know the names of TLS 1.3's new alerts.
  if (alert == SSL_AD_MISSING_EXTENSION) return "missing extension";
  if (alert == SSL_AD_CERTIFICATE_REQUIRED) return "certificate required";
  return SSL_alert_desc_string_long(alert);
}

// bad_certificate, unsupported, revoked, expired, unknown; unknown_ca, access_denied,
// decrypt_error.
bool is_about_our_certificate(int alert) {
  return (alert >= SSL_AD_BAD_CERTIFICATE && alert <= SSL_AD_CERTIFICATE_UNKNOWN) ||
         (alert >= SSL_AD_UNKNOWN_CA && alert <= SSL_AD_ACCESS_DENIED) ||
         alert == SSL_AD_DECRYPT_ERROR;
}

// The alert inside an error code: OpenSSL reports a received alert n as reason 1000 + n.
std::optional<int> received_alert(unsigned long code) {
  if (ERR_GET_LIB(code) != ERR_LIB_SSL) return std::nullopt;
  const int reason = ERR_GET_REASON(code) - SSL_AD_REASON_OFFSET;
  if (reason < 0 || reason > 255) return std::nullopt;
  return reason;
}

std::string describe_alert(std::string_view peer, int alert) {
  const std::string_view name = alert_name(alert);
  if (alert == SSL_AD_CERTIFICATE_REQUIRED) {
    return fmt::format("the {} wants a certificate and we sent none: {} (alert {})", peer, name,
                       alert);
  }
  if (is_about_our_certificate(alert)) {
    return fmt::format("the {} rejected our certificate: {} (alert {})", peer, name, alert);
  }
  return fmt::format("the {} ended the connection: {} (alert {})", peer, name, alert);
}

// OpenSSL has many words for this one cause.
bool is_of_another_authority(long verdict) {
  return verdict == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT ||
         verdict == X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT ||
         verdict == X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN ||
         verdict == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY ||
         verdict == X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE;
}

std::string describe_verdict(std::string_view peer, const SSL* connection, long verdict) {
  const std::string note = rejected_peer(connection);
  return fmt::format("we refused the {}'s certificate: {}{}{}{}", peer,
                     is_of_another_authority(verdict) ? "it comes from another authority: " : "",
                     X509_verify_cert_error_string(verdict), note.empty() ? "" : "; ", note);
}

}  // namespace

TlsFailure take_tls_failure(TlsPeer peer, const SSL* connection, unsigned long first_error) {
  const std::string_view name = peer == TlsPeer::kServer ? "server" : "client";
  // The texts of OpenSSL's TLS errors are there only once its TLS part was used in the process.
  OPENSSL_init_ssl(OPENSSL_INIT_LOAD_SSL_STRINGS | OPENSSL_INIT_LOAD_CRYPTO_STRINGS, nullptr);
  TlsFailure failure;
  failure.alert = received_alert(first_error);
  // The newest error is the nearest to the cause of an alert; older ones may be left over.
  if (!failure.alert) failure.alert = received_alert(ERR_peek_last_error());
  std::string texts = drain_openssl_errors();
  if (first_error != 0) {
    const char* reason = ERR_reason_error_string(first_error);
    if (reason != nullptr && texts.find(reason) == std::string::npos) {
      texts = fmt::format("{}{}{}", reason, texts.empty() ? "" : ": ", texts);
    }
  }
  const long verdict = connection != nullptr ? SSL_get_verify_result(connection) : X509_V_OK;
  if (failure.alert) {
    failure.certificate_rejected =
        is_about_our_certificate(*failure.alert) || *failure.alert == SSL_AD_CERTIFICATE_REQUIRED;
    failure.message = describe_alert(name, *failure.alert);
  } else if (verdict != X509_V_OK) {
    failure.peer_refused = true;
    failure.message = describe_verdict(name, connection, verdict);
  } else if (!texts.empty()) {
    failure.message = fmt::format("TLS with the {} failed: {}", name, texts);
  } else {
    failure.message = fmt::format("the {} closed the connection without a TLS message", name);
  }
  return failure;
}

std::string describe_tls_failure(TlsPeer peer, const SSL* connection, unsigned long first_error) {
  return take_tls_failure(peer, connection, first_error).message;
}

}  // namespace muster
