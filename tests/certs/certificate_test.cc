#include "certs/certificate.h"

#include "certs/pem.h"
#include "core/base/file.h"
#include "tests/certs/support.h"

using namespace muster;
using namespace muster::testing;

namespace {

Result<Identity> identity_with(const TestAuthority& authority, const char* alternative_names) {
  OddLeaf leaf;
  leaf.alternative_names = alternative_names;
  return leaf.make(authority).certificate.identity();
}

}  // namespace

TEST(Certificate, PemGoesRound) {
  const Certificate certificate = TestAuthority::create().device().certificate;
  const Certificate again = Certificate::from_pem(certificate.pem()).value();
  EXPECT_EQ(again.fingerprint(), certificate.fingerprint());
  EXPECT_EQ(again.public_key_hash(), certificate.public_key_hash());
  EXPECT_EQ(again.serial(), certificate.serial());
  EXPECT_EQ(again.pem(), certificate.pem());
  EXPECT_NE(certificate.fingerprint(), certificate.public_key_hash());
}

TEST(Certificate, FingerprintIsSha256OfDer) {
  const Certificate certificate = TestAuthority::create().device().certificate;
  std::array<unsigned char, 32> expected{};
  ASSERT_EQ(X509_digest(certificate.native(), EVP_sha256(), expected.data(), nullptr), 1);
  EXPECT_EQ(certificate.fingerprint().hex(), hex_encode(std::as_bytes(std::span(expected))));
}

TEST(Certificate, RefusesPemCutAnywhere) {
  const std::string pem = TestAuthority::create().device().certificate.pem();
  for (std::size_t size = 0; size + 1 < pem.size(); ++size) {
    const auto certificate = Certificate::from_pem(pem.substr(0, size));
    ASSERT_FALSE(certificate) << size;
    EXPECT_EQ(certificate.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(Certificate, RefusesWhatIsNotOnePemCertificate) {
  const Certificate certificate = TestAuthority::create().device().certificate;
  const std::string pem = certificate.pem();
  Bytes longer = pem_decode("CERTIFICATE", pem).value();
  longer.push_back(std::byte{0});
  const std::string bad[] = {
      pem + pem,
      pem + "x",
      "x" + pem,
      "\n" + pem,
      pem + std::string(1, '\0'),
      pem + std::string(kPemLimitBytes, '\n'),
      "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
      "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
      "-----BEGIN CERTIFICATE-----\nProc-Type: 4,ENCRYPTED\n\n" + pem.substr(28),
      pem_encode("CERTIFICATE", longer),
      pem_encode("X509 CERTIFICATE", pem_decode("CERTIFICATE", pem).value()),
      make_signing_request(PrivateKey::generate().value()).value(),
  };
  for (const auto& text : bad) {
    const auto read = Certificate::from_pem(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_TRUE(Certificate::from_pem(pem + "\r\n "));
}

// Every bit of the DER form flipped: an error or a certificate, never a crash or a hang.
TEST(Certificate, SurvivesEveryFlippedBit) {
  const Bytes der =
      pem_decode("CERTIFICATE", TestAuthority::create().device().certificate.pem()).value();
  std::size_t read = 0;
  for (std::size_t bit = 0; bit < der.size() * 8; ++bit) {
    Bytes changed = der;
    changed[bit / 8] ^= std::byte{static_cast<unsigned char>(1U << (bit % 8))};
    const auto certificate = Certificate::from_pem(pem_encode("CERTIFICATE", changed));
    if (!certificate) continue;
    ++read;
    static_cast<void>(certificate->identity());
    static_cast<void>(certificate->not_after());
    static_cast<void>(certificate->not_before());
    EXPECT_FALSE(certificate->serial().empty());
  }
  EXPECT_GT(read, 0U);
}

TEST(Certificate, ReadNamesTheFile) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "leaf.pem";
  const auto missing = Certificate::read(file);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(write_file_durably(file, as_bytes("garbage")));
  const auto garbage = Certificate::read(file);
  ASSERT_FALSE(garbage);
  EXPECT_NE(garbage.error().message.find(file.string()), std::string::npos);
}

TEST(Certificate, Tls25IdentityComesFromExactlyOneUri) {
  const TestAuthority authority = TestAuthority::create();
  EXPECT_EQ(identity_with(authority, "URI:urn:muster:device:a").value(),
            (Identity{Role::kDevice, "a"}));
  EXPECT_EQ(identity_with(authority, "DNS:x.org,URI:urn:muster:server:a,IP:127.0.0.1").value(),
            (Identity{Role::kServer, "a"}));
  for (const char* names :
       {static_cast<const char*>(nullptr), "DNS:device-01", "email:a@b.c",
        "URI:urn:muster:device:a,URI:urn:muster:device:b",
        "URI:urn:muster:device:a,URI:urn:muster:device:a",
        "URI:urn:muster:device:a,URI:https://example.org", "URI:https://example.org",
        "URI:urn:muster:admin:a", "DNS:urn:muster:device:a", "RID:1.2.3.4"}) {
    const auto identity = identity_with(authority, names);
    ASSERT_FALSE(identity) << (names == nullptr ? "none" : names);
    EXPECT_EQ(identity.error().code, ErrorCode::kUnauthenticated);
    EXPECT_EQ(identity.error().reason, "bad_identity");
  }
}

TEST(Certificate, Tls25IdentityDoesNotEndAtNulByte) {
  const TestAuthority authority = TestAuthority::create();
  for (const std::string& uri :
       {std::string("urn:muster:operator:a\0.device", 29),
        std::string("urn:muster:operator:a\0", 22), std::string("urn:muster:device:\xd0\xb0")}) {
    CertificateBuilder builder(authority.certificate().native());
    builder.set_validity(now(), now() + kDay);
    builder.set_common_name("operator");
    builder.set_public_key(authority.key.native());
    builder.add_alternative_names(uri, {});
    const auto identity = builder.sign(authority.key.native()).value().identity();
    ASSERT_FALSE(identity);
    EXPECT_EQ(identity.error().reason, "bad_identity");
  }
}

TEST(Certificate, IdentityRefusesTwoAlternativeNameExtensions) {
  const TestAuthority authority = TestAuthority::create();
  CertificateBuilder builder(authority.certificate().native());
  builder.set_validity(now(), now() + kDay);
  builder.set_common_name("device");
  builder.set_public_key(authority.key.native());
  builder.add_extension(NID_subject_alt_name, "URI:urn:muster:device:a");
  builder.add_extension(NID_subject_alt_name, "DNS:a");
  const auto identity = builder.sign(authority.key.native()).value().identity();
  ASSERT_FALSE(identity);
  EXPECT_EQ(identity.error().reason, "bad_identity");
}

TEST(Certificate, TimesOutsideTheClockBecomeItsEnds) {
  const TestAuthority authority = TestAuthority::create();
  X509* native = X509_dup(authority.certificate().native());
  const Certificate certificate = Certificate::from_native(native);
  X509_free(native);
  ASSERT_EQ(ASN1_TIME_set_string(X509_getm_notAfter(native), "99991231235959Z"), 1);
  EXPECT_EQ(certificate.not_after(), WallTime::max());
  ASSERT_EQ(ASN1_TIME_set_string(X509_getm_notBefore(native), "00010101000000Z"), 1);
  EXPECT_EQ(certificate.not_before(), WallTime::min());
}
