#pragma once

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <string_view>

#include "core/base/error.h"

// Private to certs: owners for OpenSSL's objects, and its errors as ours. An owner frees its object
// once, with OpenSSL's own function; nothing in certs calls a *_free by hand.
namespace muster {

template <auto function>
struct OpenSslFree {
  template <typename T>
  void operator()(T* object) const {
    function(object);
  }
};
template <typename T, auto function>
using OpenSslPtr = std::unique_ptr<T, OpenSslFree<function>>;

inline void free_openssl_bytes(unsigned char* bytes) {
  OPENSSL_free(bytes);
}
inline void free_certificate_list(STACK_OF(X509) * list) {
  sk_X509_pop_free(list, X509_free);
}

using Asn1IntegerPtr = OpenSslPtr<ASN1_INTEGER, ASN1_INTEGER_free>;
using Asn1StringPtr = OpenSslPtr<ASN1_STRING, ASN1_STRING_free>;
using BignumPtr = OpenSslPtr<BIGNUM, BN_free>;
using BioPtr = OpenSslPtr<BIO, BIO_free_all>;
using CertificateListPtr = OpenSslPtr<STACK_OF(X509), free_certificate_list>;
using DigestContextPtr = OpenSslPtr<EVP_MD_CTX, EVP_MD_CTX_free>;
using ExtensionPtr = OpenSslPtr<X509_EXTENSION, X509_EXTENSION_free>;
using GeneralNamePtr = OpenSslPtr<GENERAL_NAME, GENERAL_NAME_free>;
using GeneralNamesPtr = OpenSslPtr<GENERAL_NAMES, GENERAL_NAMES_free>;
using KeyContextPtr = OpenSslPtr<EVP_PKEY_CTX, EVP_PKEY_CTX_free>;
using KeyPtr = OpenSslPtr<EVP_PKEY, EVP_PKEY_free>;
using OctetStringPtr = OpenSslPtr<ASN1_OCTET_STRING, ASN1_OCTET_STRING_free>;
using OpenSslBytesPtr = OpenSslPtr<unsigned char, free_openssl_bytes>;
using Pkcs8Ptr = OpenSslPtr<PKCS8_PRIV_KEY_INFO, PKCS8_PRIV_KEY_INFO_free>;
using SigningRequestPtr = OpenSslPtr<X509_REQ, X509_REQ_free>;
using SslPtr = OpenSslPtr<SSL, SSL_free>;
using StoreContextPtr = OpenSslPtr<X509_STORE_CTX, X509_STORE_CTX_free>;
using StorePtr = OpenSslPtr<X509_STORE, X509_STORE_free>;
using X509Ptr = OpenSslPtr<X509, X509_free>;

// Takes everything out of this thread's error queue; the texts joined by ": ", the oldest first,
// each once. Empty when nothing was there.
std::string drain_openssl_errors();

// An error of ours out of the queue, which is empty afterwards: "<what>: <OpenSSL's reasons>".
Error openssl_error(std::string_view what, ErrorCode code = ErrorCode::kInternal,
                    std::string_view reason = {});

// True for an EC key on the named curve P-256.
bool is_p256(EVP_PKEY* key);

}  // namespace muster
