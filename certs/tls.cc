#include "certs/tls.h"

#include "certs/openssl.h"
#include "certs/peer_check.h"
#include "certs/tls_settings.h"

namespace muster {
namespace {

// The own certificate and key, which must belong together.
Status use_certificate(SSL_CTX* context, const Certificate& leaf, const PrivateKey& key) {
  if (SSL_CTX_use_certificate(context, leaf.native()) != 1) {
    return openssl_error("use the certificate", ErrorCode::kInvalidArgument);
  }
  if (SSL_CTX_use_PrivateKey(context, key.native()) != 1 ||
      SSL_CTX_check_private_key(context) != 1) {
    return openssl_error(
        "certificate " + leaf.serial() + " and the private key do not belong together",
        ErrorCode::kInvalidArgument, "wrong_key");
  }
  return {};
}

}  // namespace

void FreeTlsContext::operator()(SSL_CTX* context) const {
  SSL_CTX_free(context);
}

Status apply_tls_settings(SSL_CTX* context) {
  if (SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) != 1) {
    return openssl_error("allow TLS 1.3 only");
  }
  SSL_CTX_set_security_level(context, 2);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  // RELEASE_BUFFERS: an idle connection holds no 34 KiB of record buffers. NO_AUTO_CHAIN: what is
  // sent is what was configured, not what a store happens to hold.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
  SSL_CTX_set_max_cert_list(context, kCertificateChainLimitBytes);
  return {};
}

Result<TlsContext> make_server_tls(const Certificate& leaf, const PrivateKey& key,
                                   const Certificate& own_authority,
                                   const Certificate* client_authority) {
  TlsContext context(SSL_CTX_new(TLS_server_method()));
  if (!context) return openssl_error("make a TLS context");
  MUSTER_TRY_STATUS(apply_tls_settings(context.get()));
  MUSTER_TRY_STATUS(use_certificate(context.get(), leaf, key));
  if (SSL_CTX_add1_chain_cert(context.get(), own_authority.native()) != 1) {
    return openssl_error("add the authority to the chain");
  }
  if (SSL_CTX_set_num_tickets(context.get(), 0) != 1 ||
      SSL_CTX_set_max_early_data(context.get(), 0) != 1) {
    return openssl_error("switch off tickets and early data");
  }
  if (client_authority == nullptr) {
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
    return context;
  }
  MUSTER_TRY_STATUS(check_peers_against(context.get(), *client_authority));
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  if (SSL_CTX_add_client_CA(context.get(), client_authority->native()) != 1) {
    return openssl_error("name the authority to clients");
  }
  return context;
}

Status configure_client_tls(SSL_CTX* context, const Certificate& authority, const Certificate* leaf,
                            const PrivateKey* key) {
  if ((leaf == nullptr) != (key == nullptr)) {
    return Error{
        ErrorCode::kInvalidArgument,
        "client TLS: a certificate and its private key come together, one of them is missing"};
  }
  MUSTER_TRY_STATUS(apply_tls_settings(context));
  MUSTER_TRY_STATUS(check_peers_against(context, authority));
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  if (leaf != nullptr) MUSTER_TRY_STATUS(use_certificate(context, *leaf, *key));
  return {};
}

}  // namespace muster
