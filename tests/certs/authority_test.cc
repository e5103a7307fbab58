#include "certs/authority.h"

#include <sys/stat.h>

#include <set>

#include "certs/pem.h"
#include "core/base/file.h"
#include "tests/certs/support.h"

using namespace muster;
using namespace muster::testing;

namespace {

// The extension as OpenSSL prints it, "critical " before it when it is.
std::string extension(const Certificate& certificate, int nid) {
  const int at = X509_get_ext_by_NID(certificate.native(), nid, -1);
  if (at < 0) return "none";
  X509_EXTENSION* found = X509_get_ext(certificate.native(), at);
  const BioPtr bio(BIO_new(BIO_s_mem()));
  EXPECT_EQ(X509V3_EXT_print(bio.get(), found, 0, 0), 1);
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return (X509_EXTENSION_get_critical(found) == 1 ? "critical " : "") +
         std::string(text, static_cast<std::size_t>(size));
}

std::string common_name(const Certificate& certificate) {
  X509_NAME* subject = X509_get_subject_name(certificate.native());
  EXPECT_EQ(X509_NAME_entry_count(subject), 1);
  std::array<char, 128> text{};
  X509_NAME_get_text_by_NID(subject, NID_commonName, text.data(), text.size());
  return text.data();
}

// A request with whatever a stranger may put in.
struct OddRequest {
  EVP_PKEY* key;
  EVP_PKEY* signer;
  const char* subject = nullptr;
  std::vector<std::pair<int, const char*>> extensions = {};

  std::string make() const {
    const SigningRequestPtr request(X509_REQ_new());
    X509_REQ_set_pubkey(request.get(), key);
    if (subject != nullptr) {
      X509_NAME_add_entry_by_NID(X509_REQ_get_subject_name(request.get()), NID_commonName,
                                 MBSTRING_ASC, reinterpret_cast<const unsigned char*>(subject), -1,
                                 -1, 0);
    }
    STACK_OF(X509_EXTENSION)* list = sk_X509_EXTENSION_new_null();
    for (const auto& [nid, value] : extensions) {
      sk_X509_EXTENSION_push(list, X509V3_EXT_conf_nid(nullptr, nullptr, nid, value));
    }
    if (!extensions.empty()) X509_REQ_add_extensions(request.get(), list);
    sk_X509_EXTENSION_pop_free(list, X509_EXTENSION_free);
    const bool ed25519 = EVP_PKEY_get_base_id(signer) == EVP_PKEY_ED25519;
    EXPECT_GT(X509_REQ_sign(request.get(), signer, ed25519 ? nullptr : EVP_sha256()), 0);
    unsigned char* data = nullptr;
    const int size = i2d_X509_REQ(request.get(), &data);
    const OpenSslBytesPtr owner(data);
    return pem_encode("CERTIFICATE REQUEST",
                      std::as_bytes(std::span(data, static_cast<std::size_t>(size))));
  }
};

Result<Certificate> issue(const std::string& request) {
  static const Authority authority = Authority::create(now()).value();
  return authority.issue(request, {Role::kDevice, "device-01"}, now(), kDay);
}

void expect_bad_request(const std::string& request) {
  const auto certificate = issue(request);
  ASSERT_FALSE(certificate);
  EXPECT_EQ(certificate.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(certificate.error().reason, "bad_request");
}

}  // namespace

TEST(Authority, RootHasTheProfileOfOneLevel) {
  const Certificate root = Authority::create(now()).value().certificate();
  EXPECT_EQ(common_name(root), "Muster authority");
  EXPECT_EQ(extension(root, NID_basic_constraints), "critical CA:TRUE, pathlen:0");
  EXPECT_EQ(extension(root, NID_key_usage), "critical Certificate Sign, CRL Sign");
  EXPECT_NE(extension(root, NID_subject_key_identifier), "none");
  EXPECT_EQ(X509_get_version(root.native()), X509_VERSION_3);
  EXPECT_EQ(X509_self_signed(root.native(), 1), 1);
  EXPECT_LT(root.not_before(), now() - std::chrono::minutes(59));
  EXPECT_GT(root.not_after(), now() + kDay * 365 * 10);
}

TEST(Authority, LeafHasTheProfileOfItsRole) {
  const TestAuthority authority = TestAuthority::create();
  for (const Role role : {Role::kDevice, Role::kOperator, Role::kAuditor}) {
    const Certificate leaf =
        issue_key_pair(authority.authority, {role, "anna"}, now(), kDay).value().certificate;
    EXPECT_EQ(common_name(leaf), "anna");
    EXPECT_EQ(leaf.identity().value(), (Identity{role, "anna"}));
    EXPECT_EQ(extension(leaf, NID_basic_constraints), "critical CA:FALSE");
    EXPECT_EQ(extension(leaf, NID_key_usage), "critical Digital Signature");
    EXPECT_EQ(extension(leaf, NID_ext_key_usage), "TLS Web Client Authentication");
    EXPECT_EQ(extension(leaf, NID_subject_alt_name),
              "URI:urn:muster:" + std::string(to_string(role)) + ":anna");
    EXPECT_NE(extension(leaf, NID_subject_key_identifier), "none");
    EXPECT_NE(extension(leaf, NID_authority_key_identifier)
                  .find(extension(authority.certificate(), NID_subject_key_identifier)),
              std::string::npos);
  }
}

TEST(Authority, ServerLeafNamesItsHosts) {
  const TestAuthority authority = TestAuthority::create();
  const Certificate leaf = authority.server({"muster.example.org", "127.0.0.1", "::1"}).certificate;
  EXPECT_EQ(extension(leaf, NID_ext_key_usage), "TLS Web Server Authentication");
  EXPECT_EQ(extension(leaf, NID_subject_alt_name),
            "URI:urn:muster:server:server, DNS:muster.example.org, IP Address:127.0.0.1, "
            "IP Address:0:0:0:0:0:0:0:1");
  EXPECT_EQ(leaf.identity().value(), (Identity{Role::kServer, "server"}));
}

TEST(Authority, RefusesBadNamesHostsAndLifetimes) {
  const Authority authority = Authority::create(now()).value();
  const std::string request = make_signing_request(PrivateKey::generate().value()).value();
  for (const std::string& name : {std::string(), std::string("a b"), std::string("a\0b", 3),
                                  std::string("../a"), std::string(65, 'a')}) {
    const auto leaf = authority.issue(request, {Role::kDevice, name}, now(), kDay);
    ASSERT_FALSE(leaf);
    EXPECT_EQ(leaf.error().reason, "bad_name");
  }
  for (const std::string& host :
       {std::string(), std::string("a b"), std::string("a\0b", 3), std::string("*.example.org"),
        std::string("-a"), std::string("a..b"), std::string("a,DNS:b"), std::string(254, 'a'),
        std::string(64, 'a'), std::string("127.0.0.1\0", 10), std::string("a.")}) {
    const auto leaf = authority.issue(request, {Role::kServer, "server"}, now(), kDay, {host});
    ASSERT_FALSE(leaf) << host;
    EXPECT_EQ(leaf.error().reason, "bad_host");
  }
  EXPECT_FALSE(authority.issue(request, {Role::kDevice, "a"}, now(), kDay, {"localhost"}));
  EXPECT_FALSE(authority.issue(request, {Role::kDevice, "a"}, now(), hours(0)));
  EXPECT_FALSE(authority.issue(request, {Role::kDevice, "a"}, now(), hours(-1)));
}

TEST(Authority, LeafNeverOutlivesTheRoot) {
  const Authority authority = Authority::create(now()).value();
  const std::string request = make_signing_request(PrivateKey::generate().value()).value();
  const auto issue_for = [&](WallTime at, hours life) {
    return authority.issue(request, {Role::kDevice, "a"}, at, life);
  };
  const WallTime end = authority.certificate().not_after();
  EXPECT_EQ(issue_for(now(), kDay * 100000).value().not_after(), end);
  EXPECT_EQ(issue_for(now(), hours::max()).value().not_after(), end);
  EXPECT_EQ(issue_for(end - hours(2), kDay).value().not_after(), end);
  const auto late = issue_for(end, kDay);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kFailedPrecondition);

  const WallTime at = std::chrono::floor<std::chrono::seconds>(now());
  const Certificate day = issue_for(at, kDay).value();
  EXPECT_EQ(day.not_before(), at - hours(1));
  EXPECT_EQ(day.not_after(), at + kDay);
}

TEST(Authority, SerialsArePositiveAndNeverTheSame) {
  const Authority authority = Authority::create(now()).value();
  const std::string request = make_signing_request(PrivateKey::generate().value()).value();
  std::set<std::string> serials;
  for (int i = 0; i < 200; ++i) {
    const Certificate leaf = authority.issue(request, {Role::kDevice, "a"}, now(), kDay).value();
    EXPECT_EQ(leaf.serial().find('-'), std::string::npos);
    EXPECT_LE(leaf.serial().size(), 32U);
    EXPECT_GE(leaf.serial().size(), 20U);  // fails by chance once in 2^48
    serials.insert(leaf.serial());
  }
  EXPECT_EQ(serials.size(), 200U);
}

TEST(Authority, WritesAndReadsItsFolder) {
  const TemporaryFolder folder;
  const Authority authority = Authority::create(now()).value();
  ASSERT_TRUE(authority.write(folder.path()));
  struct stat status {};
  ASSERT_EQ(stat((folder.path() / "authority.pem").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0644U);
  ASSERT_EQ(stat((folder.path() / "authority.key").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600U);
  const Authority again = Authority::read(folder.path()).value();
  EXPECT_EQ(again.certificate().fingerprint(), authority.certificate().fingerprint());
  const KeyPair leaf = issue_key_pair(again, {Role::kDevice, "a"}, now(), kDay).value();
  EXPECT_EQ(
      X509_verify(leaf.certificate.native(), X509_get0_pubkey(authority.certificate().native())),
      1);
}

TEST(Authority, ReadRefusesOpenKeyWrongKeyAndLeaf) {
  const TemporaryFolder folder;
  const TestAuthority authority = TestAuthority::create();
  ASSERT_TRUE(authority.authority.write(folder.path()));
  ASSERT_EQ(chmod((folder.path() / "authority.key").c_str(), 0644), 0);
  const auto open_key = Authority::read(folder.path());
  ASSERT_FALSE(open_key);
  EXPECT_EQ(open_key.error().code, ErrorCode::kFailedPrecondition);

  ASSERT_TRUE(PrivateKey::generate().value().write(folder.path() / "authority.key"));
  const auto wrong_key = Authority::read(folder.path());
  ASSERT_FALSE(wrong_key);
  EXPECT_EQ(wrong_key.error().reason, "bad_authority");

  const KeyPair leaf = authority.device();
  ASSERT_TRUE(leaf.key.write(folder.path() / "authority.key"));
  ASSERT_TRUE(
      write_file_durably(folder.path() / "authority.pem", as_bytes(leaf.certificate.pem())));
  const auto no_authority = Authority::read(folder.path());
  ASSERT_FALSE(no_authority);
  EXPECT_EQ(no_authority.error().reason, "bad_authority");
}

TEST(AuthorityIssue, Auth07TakesNothingButTheKeyFromARequest) {
  const PrivateKey key = PrivateKey::generate().value();
  const OddRequest request{
      key.native(),
      key.native(),
      "operator",
      {{NID_basic_constraints, "critical,CA:TRUE"},
       {NID_key_usage, "critical,keyCertSign"},
       {NID_ext_key_usage, "serverAuth"},
       {NID_subject_alt_name, "URI:urn:muster:operator:root,DNS:evil.example.org"}}};
  const Certificate leaf = issue(request.make()).value();
  EXPECT_EQ(common_name(leaf), "device-01");
  EXPECT_EQ(leaf.identity().value(), (Identity{Role::kDevice, "device-01"}));
  EXPECT_EQ(extension(leaf, NID_basic_constraints), "critical CA:FALSE");
  EXPECT_EQ(extension(leaf, NID_key_usage), "critical Digital Signature");
  EXPECT_EQ(extension(leaf, NID_ext_key_usage), "TLS Web Client Authentication");
  EXPECT_EQ(extension(leaf, NID_subject_alt_name), "URI:urn:muster:device:device-01");
  EXPECT_EQ(X509_get_ext_count(leaf.native()), 6);
  EXPECT_EQ(EVP_PKEY_eq(X509_get0_pubkey(leaf.native()), key.native()), 1);
}

TEST(AuthorityIssue, AcceptsEd25519) {
  const KeyPtr key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  const Certificate leaf = issue(OddRequest{key.get(), key.get()}.make()).value();
  EXPECT_EQ(EVP_PKEY_eq(X509_get0_pubkey(leaf.native()), key.get()), 1);

  const DigestContextPtr context(EVP_MD_CTX_new());
  std::array<unsigned char, 64> signature{};
  std::size_t size = signature.size();
  const std::string message = "round 7";
  const auto* data = reinterpret_cast<const unsigned char*>(message.data());
  ASSERT_EQ(EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()), 1);
  ASSERT_EQ(EVP_DigestSign(context.get(), signature.data(), &size, data, message.size()), 1);
  EXPECT_TRUE(leaf.verify(message, std::as_bytes(std::span(signature))));
  EXPECT_FALSE(leaf.verify("round 8", std::as_bytes(std::span(signature))));
}

TEST(AuthorityIssue, Auth07RefusesOtherKeys) {
  const KeyPtr rsa1024(EVP_RSA_gen(1024));
  const KeyPtr rsa2048(EVP_RSA_gen(2048));
  const KeyPtr p384(EVP_EC_gen("P-384"));
  const KeyPtr p224(EVP_EC_gen("P-224"));
  const KeyPtr k256(EVP_EC_gen("secp256k1"));
  const KeyPtr ed448(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED448"));
  for (EVP_PKEY* key : {rsa1024.get(), rsa2048.get(), p384.get(), p224.get(), k256.get()}) {
    expect_bad_request(OddRequest{key, key}.make());
  }
  const PrivateKey good = PrivateKey::generate().value();
  expect_bad_request(OddRequest{ed448.get(), good.native()}.make());
}

TEST(AuthorityIssue, Auth07RefusesRequestSignedByAnotherKey) {
  const PrivateKey key = PrivateKey::generate().value();
  const PrivateKey other = PrivateKey::generate().value();
  const KeyPtr ed25519(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  expect_bad_request(OddRequest{key.native(), other.native()}.make());
  expect_bad_request(OddRequest{key.native(), ed25519.get()}.make());
  expect_bad_request(OddRequest{ed25519.get(), key.native()}.make());
}

TEST(AuthorityIssue, Auth07RefusesEveryFlippedBit) {
  const std::string pem = make_signing_request(PrivateKey::generate().value()).value();
  const Bytes der = pem_decode("CERTIFICATE REQUEST", pem).value();
  for (std::size_t bit = 0; bit < der.size() * 8; ++bit) {
    Bytes changed = der;
    changed[bit / 8] ^= std::byte{static_cast<unsigned char>(1U << (bit % 8))};
    expect_bad_request(pem_encode("CERTIFICATE REQUEST", changed));
  }
}

TEST(AuthorityIssue, Auth07RefusesRequestCutAnywhere) {
  const std::string pem = make_signing_request(PrivateKey::generate().value()).value();
  for (std::size_t size = 0; size + 1 < pem.size(); ++size) expect_bad_request(pem.substr(0, size));
  const Bytes der = pem_decode("CERTIFICATE REQUEST", pem).value();
  for (std::size_t size = 0; size < der.size(); ++size) {
    expect_bad_request(pem_encode("CERTIFICATE REQUEST", ByteView(der).first(size)));
  }
}

TEST(AuthorityIssue, Auth07RefusesWhatIsNotOneRequest) {
  const PrivateKey key = PrivateKey::generate().value();
  const std::string pem = make_signing_request(key).value();
  Bytes longer = pem_decode("CERTIFICATE REQUEST", pem).value();
  longer.push_back(std::byte{0});
  std::string long_value = "DNS:";
  for (int i = 0; i < 1000; ++i) long_value += "evil.example.org,DNS:";
  long_value += "a";
  const std::string bad[] = {
      "",
      "garbage",
      std::string(1 << 20, 'A'),
      std::string(1000, '\0'),
      pem + pem,
      pem + TestAuthority::create().certificate().pem(),
      TestAuthority::create().certificate().pem(),
      "text before\n" + pem,
      pem + "text after\n",
      pem_encode("CERTIFICATE REQUEST", longer),
      pem_encode("NEW CERTIFICATE REQUEST", pem_decode("CERTIFICATE REQUEST", pem).value()),
      OddRequest{key.native(), key.native(), "a", {{NID_subject_alt_name, long_value.c_str()}}}
          .make(),
  };
  for (const auto& request : bad) expect_bad_request(request);
  EXPECT_GT(bad[11].size(), kPemLimitBytes);
}
