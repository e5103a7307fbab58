#include "certs/tls_error.h"

#include <openssl/err.h>

#include "tests/certs/support.h"

using namespace muster;

TEST(TlsError, NamesTheAlertAndItsNumber) {
  ERR_clear_error();
  ERR_raise(ERR_LIB_SSL, SSL_AD_REASON_OFFSET + SSL_AD_CERTIFICATE_REVOKED);
  const TlsFailure failure = take_tls_failure(TlsPeer::kServer);
  EXPECT_EQ(failure.message, "the server rejected our certificate: certificate revoked (alert 44)");
  EXPECT_EQ(failure.alert, 44);
  EXPECT_TRUE(failure.certificate_rejected);
  EXPECT_FALSE(failure.peer_refused);
}

TEST(TlsError, LeavesTheQueueEmpty) {
  ERR_raise(ERR_LIB_SSL, SSL_R_CERTIFICATE_VERIFY_FAILED);
  ERR_raise(ERR_LIB_SSL, SSL_R_BAD_DATA);
  EXPECT_EQ(describe_tls_failure(TlsPeer::kClient),
            "TLS with the client failed: certificate verify failed: bad data");
  EXPECT_EQ(ERR_peek_error(), 0UL);
  EXPECT_EQ(describe_tls_failure(TlsPeer::kClient),
            "the client closed the connection without a TLS message");
}

TEST(TlsError, ReadsAnErrorThatALibraryTookOutOfTheQueue) {
  ERR_clear_error();
  const unsigned long code = ERR_PACK(ERR_LIB_SSL, 0, SSL_AD_REASON_OFFSET + SSL_AD_UNKNOWN_CA);
  EXPECT_EQ(describe_tls_failure(TlsPeer::kServer, nullptr, code),
            "the server rejected our certificate: unknown CA (alert 48)");
  EXPECT_EQ(describe_tls_failure(TlsPeer::kServer, nullptr,
                                 ERR_PACK(ERR_LIB_SSL, 0, SSL_R_WRONG_VERSION_NUMBER)),
            "TLS with the server failed: wrong version number");
}

TEST(TlsError, OtherAlertsAreNotAboutOurCertificate) {
  ERR_clear_error();
  ERR_raise(ERR_LIB_SSL, SSL_AD_REASON_OFFSET + SSL_AD_HANDSHAKE_FAILURE);
  const TlsFailure failure = take_tls_failure(TlsPeer::kServer);
  EXPECT_EQ(failure.alert, 40);
  EXPECT_FALSE(failure.certificate_rejected);
}
