#include "certs/tls.h"

#include "tests/certs/support.h"

using namespace muster;
using namespace muster::testing;

namespace {

// A server that wants a certificate of its own authority, and clients against it.
class Tls : public ::testing::Test {
 protected:
  TestAuthority authority_ = TestAuthority::create();
  TestAuthority other_ = TestAuthority::create();
  KeyPair server_ = authority_.server();
  TlsContext context_ = make_server_tls(server_.certificate, server_.key, authority_.certificate(),
                                        &authority_.certificate())
                            .value();

  Outcome connect(const KeyPair& client) {
    return handshake(
        context_.get(),
        client_context(authority_.certificate(), &client.certificate, &client.key).get());
  }
  // A client that trusts `authority_` and has no certificate, against a server with `leaf`.
  Outcome connect_to(const KeyPair& leaf, const Certificate& root, const char* host = "localhost") {
    const TlsContext server = make_server_tls(leaf.certificate, leaf.key, root, nullptr).value();
    return handshake(server.get(), client_context(authority_.certificate()).get(), host);
  }
  static void expect_alert(const Outcome& outcome, int alert, const char* text) {
    EXPECT_FALSE(outcome.server_finished);
    EXPECT_EQ(outcome.received, "");
    EXPECT_EQ(outcome.alert_at_client, alert);
    EXPECT_EQ(outcome.client_failure, text);
    EXPECT_EQ(outcome.client_detail.alert, alert);
  }
  static void expect_refused_server(const Outcome& outcome, long verdict) {
    EXPECT_FALSE(outcome.client_finished);
    EXPECT_FALSE(outcome.server_finished);
    EXPECT_EQ(outcome.client_verdict, verdict);
    EXPECT_TRUE(outcome.client_detail.peer_refused) << outcome.client_failure;
    EXPECT_TRUE(outcome.client_failure.starts_with("we refused the server's certificate: "))
        << outcome.client_failure;
  }
};

}  // namespace

TEST_F(Tls, AdmitsDeviceOfItsAuthority) {
  const Outcome outcome = connect(authority_.device());
  EXPECT_TRUE(outcome.server_finished) << outcome.server_failure;
  EXPECT_TRUE(outcome.client_finished) << outcome.client_failure;
  EXPECT_EQ(outcome.received, "hello");
  EXPECT_EQ(outcome.protocol, TLS1_3_VERSION);
  EXPECT_EQ(outcome.chain_length, 2);
}

TEST_F(Tls, AdmitsClientWithoutCertificateWhereNoneIsAskedFor) {
  const Outcome outcome = connect_to(server_, authority_.certificate());
  EXPECT_EQ(outcome.received, "hello") << outcome.client_failure;
  EXPECT_EQ(outcome.chain_length, 2);
}

TEST_F(Tls, Tls22GivesNoSessionTicket) {
  const Outcome outcome = connect(authority_.device());
  ASSERT_EQ(outcome.received, "hello");
  EXPECT_FALSE(outcome.resumable);
}

TEST_F(Tls, Tls22GivesNoSessionTicketToClientThatWantsOne) {
  const KeyPair device = authority_.device();
  const TlsContext client(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_session_cache_mode(client.get(), SSL_SESS_CACHE_CLIENT);
  SSL_CTX_use_certificate(client.get(), device.certificate.native());
  SSL_CTX_use_PrivateKey(client.get(), device.key.native());
  const Outcome outcome = handshake(context_.get(), client.get(), nullptr);
  ASSERT_EQ(outcome.received, "hello");
  EXPECT_FALSE(outcome.resumable);
}

TEST_F(Tls, Tls10RefusesClientWithoutCertificate) {
  const Outcome outcome = handshake(context_.get(), client_context(authority_.certificate()).get());
  expect_alert(outcome, 116,
               "the server wants a certificate and we sent none: certificate required (alert 116)");
  EXPECT_TRUE(outcome.client_detail.certificate_rejected);
}

TEST_F(Tls, Tls12RefusesCertificateOfAnotherAuthority) {
  const Outcome outcome = connect(other_.device());
  expect_alert(outcome, 48, "the server rejected our certificate: unknown CA (alert 48)");
  EXPECT_TRUE(outcome.client_detail.certificate_rejected);
  EXPECT_TRUE(outcome.server_failure.starts_with("we refused the client's certificate: "))
      << outcome.server_failure;
}

TEST_F(Tls, Tls12RefusesSelfSignedCertificate) {
  const PrivateKey key = PrivateKey::generate().value();
  CertificateBuilder builder(nullptr);
  builder.set_validity(now() - hours(1), now() + kDay);
  builder.set_common_name("device-01");
  builder.set_public_key(key.native());
  builder.add_extension(NID_ext_key_usage, "clientAuth");
  const Certificate leaf = builder.sign(key.native()).value();
  const TlsContext client = client_context(authority_.certificate(), &leaf, &key);
  EXPECT_EQ(handshake(context_.get(), client.get()).alert_at_client, 48);
}

TEST_F(Tls, Tls12NeverLooksIntoTheContextsOwnStore) {
  // As if a library had loaded the operating system's authorities.
  X509_STORE_add_cert(SSL_CTX_get_cert_store(context_.get()), other_.certificate().native());
  EXPECT_EQ(connect(other_.device()).alert_at_client, 48);

  const TlsContext client = client_context(authority_.certificate());
  X509_STORE_add_cert(SSL_CTX_get_cert_store(client.get()), other_.certificate().native());
  const KeyPair server = other_.server();
  const TlsContext foreign =
      make_server_tls(server.certificate, server.key, other_.certificate(), nullptr).value();
  expect_refused_server(handshake(foreign.get(), client.get()),
                        X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN);
}

TEST_F(Tls, Tls13RefusesExpiredCertificate) {
  const Outcome outcome = connect(authority_.device("device-01", now() - kDay * 3, kDay));
  expect_alert(outcome, 45, "the server rejected our certificate: certificate expired (alert 45)");
}

TEST_F(Tls, Tls14RefusesCertificateNotYetValid) {
  const KeyPair device = authority_.device("device-01", now() + kDay, kDay);
  const Outcome outcome = connect(device);
  expect_alert(outcome, 42, "the server rejected our certificate: bad certificate (alert 42)");
  for (const std::string& part :
       {std::string("not yet valid"), "serial " + device.certificate.serial(),
        std::string("valid from "), std::string("our clock says ")}) {
    EXPECT_NE(outcome.server_failure.find(part), std::string::npos) << outcome.server_failure;
  }
}

TEST_F(Tls, Tls17RefusesServerCertificateOfClient) {
  expect_alert(connect(server_), 43,
               "the server rejected our certificate: unsupported certificate (alert 43)");
}

TEST_F(Tls, Tls18RefusesCertificateWithoutExtendedKeyUsage) {
  OddLeaf leaf;
  ASSERT_EQ(connect(leaf.make(authority_)).received,
            "hello");  // the usage alone makes the difference
  leaf.extended_key_usage = nullptr;
  expect_alert(connect(leaf.make(authority_)), 43,
               "the server rejected our certificate: unsupported certificate (alert 43)");
}

TEST_F(Tls, Tls18RefusesCertificateForAnyOrOtherUsage) {
  for (const char* usage : {"anyExtendedKeyUsage", "codeSigning", "emailProtection,serverAuth"}) {
    OddLeaf leaf;
    leaf.extended_key_usage = usage;
    EXPECT_EQ(connect(leaf.make(authority_)).alert_at_client, 43) << usage;
  }
}

TEST_F(Tls, Tls20RefusesCertificateSignedByADevice) {
  const KeyPair device = authority_.device("parent");
  const KeyPair child = OddLeaf{}.make(device.certificate, device.key);
  const TlsContext client =
      client_context(authority_.certificate(), &child.certificate, &child.key);
  ASSERT_EQ(SSL_CTX_add1_chain_cert(client.get(), device.certificate.native()), 1);
  const Outcome outcome = handshake(context_.get(), client.get());
  EXPECT_FALSE(outcome.server_finished);
  EXPECT_EQ(outcome.alert_at_client, 48) << outcome.server_failure;
}

TEST_F(Tls, Tls20RefusesChainThroughASecondAuthority) {
  // A root without a path length, and a proper authority under it: only our own rule of two
  // certificates speaks against this chain.
  const PrivateKey root_key = PrivateKey::generate().value();
  CertificateBuilder builder(nullptr);
  builder.set_validity(now() - hours(1), now() + kDay);
  builder.set_common_name("root");
  builder.set_public_key(root_key.native());
  builder.add_extension(NID_basic_constraints, "critical,CA:TRUE");
  builder.add_extension(NID_key_usage, "critical,keyCertSign,cRLSign");
  builder.add_extension(NID_subject_key_identifier, "hash");
  const Certificate root = builder.sign(root_key.native()).value();
  const TlsContext server =
      make_server_tls(server_.certificate, server_.key, authority_.certificate(), &root).value();
  const auto connect_as = [&](const KeyPair& leaf, const Certificate* between) {
    const TlsContext client =
        client_context(authority_.certificate(), &leaf.certificate, &leaf.key);
    if (between != nullptr) SSL_CTX_add1_chain_cert(client.get(), between->native());
    return handshake(server.get(), client.get());
  };
  ASSERT_EQ(connect_as(OddLeaf{}.make(root, root_key), nullptr).received, "hello");

  OddLeaf middle;
  middle.basic_constraints = "critical,CA:TRUE";
  middle.key_usage = "critical,digitalSignature,keyCertSign";
  const KeyPair intermediate = middle.make(root, root_key);
  const KeyPair child = OddLeaf{}.make(intermediate.certificate, intermediate.key);
  const Outcome outcome = connect_as(child, &intermediate.certificate);
  EXPECT_FALSE(outcome.server_finished);
  EXPECT_EQ(outcome.received, "");
  EXPECT_EQ(outcome.alert_at_client, 48);
  EXPECT_NE(outcome.server_failure.find("certificate chain too long"), std::string::npos)
      << outcome.server_failure;
}

TEST_F(Tls, Tls20RefusesAuthorityUnderTheRootsPathLength) {
  OddLeaf middle;
  middle.basic_constraints = "critical,CA:TRUE";
  middle.key_usage = "critical,digitalSignature,keyCertSign";
  const KeyPair intermediate = middle.make(authority_);
  const KeyPair child = OddLeaf{}.make(intermediate.certificate, intermediate.key);
  const TlsContext client =
      client_context(authority_.certificate(), &child.certificate, &child.key);
  ASSERT_EQ(SSL_CTX_add1_chain_cert(client.get(), intermediate.certificate.native()), 1);
  expect_alert(handshake(context_.get(), client.get()), 48,
               "the server rejected our certificate: unknown CA (alert 48)");
}

// The root's own certificate and key are no way in either.
TEST_F(Tls, RefusesTheRootAsClient) {
  const TlsContext client =
      client_context(authority_.certificate(), &authority_.certificate(), &authority_.key);
  const Outcome outcome = handshake(context_.get(), client.get());
  EXPECT_FALSE(outcome.server_finished);
  EXPECT_TRUE(outcome.alert_at_client.has_value());
}

TEST_F(Tls, Tls05And06RefuseOlderVersions) {
  for (const int version : {TLS1_VERSION, TLS1_1_VERSION, TLS1_2_VERSION}) {
    const TlsContext client(SSL_CTX_new(TLS_client_method()));
    SSL_CTX_set_security_level(client.get(), 0);
    ASSERT_EQ(SSL_CTX_set_min_proto_version(client.get(), version), 1);
    ASSERT_EQ(SSL_CTX_set_max_proto_version(client.get(), version), 1);
    const Outcome outcome = handshake(context_.get(), client.get());
    expect_alert(outcome, 70, "the server ended the connection: protocol version (alert 70)");
    EXPECT_FALSE(outcome.client_detail.certificate_rejected);
  }
}

TEST_F(Tls, Tls26RefusesLongCertificateChain) {
  const KeyPair device = authority_.device();
  const TlsContext client =
      client_context(authority_.certificate(), &device.certificate, &device.key);
  // Some 650 bytes each.
  for (int i = 0; i < 40; ++i) {
    SSL_CTX_add1_chain_cert(client.get(), other_.device().certificate.native());
  }
  const Outcome outcome = handshake(context_.get(), client.get());
  EXPECT_FALSE(outcome.server_finished);
  EXPECT_NE(outcome.server_failure.find("excessive message size"), std::string::npos)
      << outcome.server_failure;
}

// A client that holds a stolen certificate but not its key: OpenSSL will not take the pair, so the
// signature in the handshake is made with a key that only claims to be the right one.
TEST_F(Tls, Tls21RefusesRightCertificateWithWrongKey) {
  const KeyPair device = authority_.device();
  const PrivateKey wrong = PrivateKey::generate().value();
  EXPECT_FALSE(make_server_tls(server_.certificate, wrong, authority_.certificate(), nullptr));
  const TlsContext refused(SSL_CTX_new(TLS_client_method()));
  const Status status =
      configure_client_tls(refused.get(), authority_.certificate(), &device.certificate, &wrong);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().reason, "wrong_key");
  EXPECT_NE(status.error().message.find("do not belong together"), std::string::npos);

  // The private number of one key beside the public point of another.
  BIGNUM* number = nullptr;
  ASSERT_EQ(EVP_PKEY_get_bn_param(wrong.native(), "priv", &number), 1);
  const BignumPtr owner(number);
  std::array<unsigned char, 65> point{};
  std::size_t size = 0;
  ASSERT_EQ(EVP_PKEY_get_octet_string_param(device.key.native(), "pub", point.data(), point.size(),
                                            &size),
            1);
  std::array<unsigned char, 32> native_number{};
  ASSERT_EQ(BN_bn2nativepad(number, native_number.data(), 32), 32);
  std::string group = "prime256v1";
  std::array parameters = {OSSL_PARAM_construct_utf8_string("group", group.data(), 0),
                           OSSL_PARAM_construct_octet_string("pub", point.data(), size),
                           OSSL_PARAM_construct_BN("priv", native_number.data(), 32),
                           OSSL_PARAM_construct_end()};
  const KeyContextPtr maker(EVP_PKEY_CTX_new_from_name(nullptr, "EC", nullptr));
  EVP_PKEY* forged = nullptr;
  ASSERT_EQ(EVP_PKEY_fromdata_init(maker.get()), 1);
  ASSERT_EQ(EVP_PKEY_fromdata(maker.get(), &forged, EVP_PKEY_KEYPAIR, parameters.data()), 1);
  const KeyPtr forged_owner(forged);

  const TlsContext client = client_context(authority_.certificate());
  ASSERT_EQ(SSL_CTX_use_certificate(client.get(), device.certificate.native()), 1);
  ASSERT_EQ(SSL_CTX_use_PrivateKey(client.get(), forged), 1);
  const Outcome outcome = handshake(context_.get(), client.get());
  expect_alert(outcome, 51, "the server rejected our certificate: decrypt error (alert 51)");
}

TEST_F(Tls, ClientWantsCertificateAndKeyTogether) {
  const KeyPair device = authority_.device();
  const TlsContext client(SSL_CTX_new(TLS_client_method()));
  EXPECT_FALSE(
      configure_client_tls(client.get(), authority_.certificate(), &device.certificate, nullptr));
  EXPECT_FALSE(configure_client_tls(client.get(), authority_.certificate(), nullptr, &device.key));
}

TEST_F(Tls, Tls29ClientRefusesServerOfAnotherAuthority) {
  const Outcome outcome = connect_to(other_.server(), other_.certificate());
  expect_refused_server(outcome, X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN);
  EXPECT_EQ(outcome.alert_at_server, 48);
  EXPECT_NE(outcome.client_failure.find("it comes from another authority"), std::string::npos);
}

TEST_F(Tls, Tls29ClientRefusesServerThatBorrowsTheRoot) {
  // The right root in the chain, but the leaf is not from it.
  expect_refused_server(connect_to(other_.server(), authority_.certificate()),
                        X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY);
}

TEST_F(Tls, Tls29ClientRefusesServerOfAnotherHost) {
  expect_refused_server(
      connect_to(authority_.server({"other.example.org"}), authority_.certificate()),
      X509_V_ERR_HOSTNAME_MISMATCH);
  // Neither the common name nor the identity is a host name.
  expect_refused_server(
      connect_to(authority_.server({"other.example.org"}), authority_.certificate(), "server"),
      X509_V_ERR_HOSTNAME_MISMATCH);
}

TEST_F(Tls, Tls29ClientRefusesExpiredServer) {
  const KeyPair old = authority_.server({"localhost"}, now() - kDay * 3);
  const Outcome outcome = connect_to(old, authority_.certificate());
  expect_refused_server(outcome, X509_V_ERR_CERT_HAS_EXPIRED);
  EXPECT_EQ(outcome.alert_at_server, 45);
  EXPECT_NE(outcome.client_failure.find("serial " + old.certificate.serial()), std::string::npos);
}

TEST_F(Tls, Tls29ClientRefusesServerNotYetValid) {
  expect_refused_server(
      connect_to(authority_.server({"localhost"}, now() + kDay), authority_.certificate()),
      X509_V_ERR_CERT_NOT_YET_VALID);
}

TEST_F(Tls, Tls29ClientRefusesDevicePosingAsServer) {
  OddLeaf leaf;
  leaf.alternative_names = "URI:urn:muster:device:device-01,DNS:localhost";
  for (const char* usage :
       {"clientAuth", "anyExtendedKeyUsage", static_cast<const char*>(nullptr)}) {
    leaf.extended_key_usage = usage;
    const Outcome outcome = connect_to(leaf.make(authority_), authority_.certificate());
    expect_refused_server(outcome, X509_V_ERR_INVALID_PURPOSE);
    EXPECT_EQ(outcome.alert_at_server, 43);
  }
}

// As the HTTP library of the client does it: the handshake goes on, the verdict is asked for after
// it.
TEST_F(Tls, Tls29VerdictStandsWhenALibrarySwitchesTheAlertOff) {
  OddLeaf leaf;
  leaf.extended_key_usage = nullptr;
  leaf.alternative_names = "DNS:localhost";
  const KeyPair odd = leaf.make(authority_);
  const TlsContext server =
      make_server_tls(odd.certificate, odd.key, authority_.certificate(), nullptr).value();
  const TlsContext client = client_context(authority_.certificate());
  SSL_CTX_set_verify(client.get(), SSL_VERIFY_NONE, nullptr);
  const Outcome outcome = handshake(server.get(), client.get());
  EXPECT_TRUE(outcome.client_finished);
  EXPECT_EQ(outcome.client_verdict, X509_V_ERR_INVALID_PURPOSE);
}
