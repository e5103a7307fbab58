#include "certs/key.h"

#include <sys/stat.h>

#include "certs/pem.h"
#include "core/base/file.h"
#include "tests/certs/support.h"

using namespace muster;
using namespace muster::testing;

namespace {

mode_t mode_of(const std::filesystem::path& file) {
  struct stat status {};
  EXPECT_EQ(stat(file.c_str(), &status), 0);
  return status.st_mode & 07777;
}

std::string to_pem(EVP_PKEY* key) {
  const Pkcs8Ptr info(EVP_PKEY2PKCS8(key));
  unsigned char* data = nullptr;
  const int size = i2d_PKCS8_PRIV_KEY_INFO(info.get(), &data);
  const OpenSslBytesPtr owner(data);
  return pem_encode("PRIVATE KEY", std::as_bytes(std::span(data, static_cast<std::size_t>(size))));
}

}  // namespace

TEST(PrivateKey, WritesPrivateFileAndReadsItBack) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "device.key";
  const PrivateKey key = PrivateKey::generate().value();
  ASSERT_TRUE(key.write(file));
  EXPECT_EQ(mode_of(file), 0600U);
  const PrivateKey again = PrivateKey::read(file).value();
  EXPECT_EQ(EVP_PKEY_eq(key.native(), again.native()), 1);
  EXPECT_TRUE(read_file(file, 4096).value().starts_with("-----BEGIN PRIVATE KEY-----\n"));
}

TEST(PrivateKey, RefusesFileThatOthersCanRead) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "device.key";
  ASSERT_TRUE(PrivateKey::generate().value().write(file));
  for (const mode_t mode : {0640U, 0604U, 0660U, 0644U}) {
    ASSERT_EQ(chmod(file.c_str(), mode), 0);
    const auto key = PrivateKey::read(file);
    ASSERT_FALSE(key);
    EXPECT_EQ(key.error().code, ErrorCode::kFailedPrecondition);
    EXPECT_NE(key.error().message.find(file.string()), std::string::npos);
    EXPECT_NE(key.error().message.find("0600"), std::string::npos);
  }
}

TEST(PrivateKey, RefusesOtherKindsOfKey) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "other.key";
  const KeyPtr rsa(EVP_RSA_gen(2048));
  const KeyPtr p384(EVP_EC_gen("P-384"));
  const KeyPtr ed25519(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  for (EVP_PKEY* key : {rsa.get(), p384.get(), ed25519.get()}) {
    ASSERT_TRUE(write_file_durably(file, as_bytes(to_pem(key)), 0600));
    const auto read = PrivateKey::read(file);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(PrivateKey, RefusesFileCutAnywhereWithoutShowingIt) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "cut.key";
  const std::string pem = to_pem(PrivateKey::generate().value().native());
  for (std::size_t size = 0; size + 1 < pem.size(); ++size) {
    {
      std::error_code ignored;
      std::filesystem::remove(file, ignored);
    }
    const int descriptor = open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    ASSERT_EQ(write(descriptor, pem.data(), size), static_cast<ssize_t>(size));
    close(descriptor);
    const auto key = PrivateKey::read(file);
    ASSERT_FALSE(key) << size;
    EXPECT_EQ(key.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(key.error().message.find(pem.substr(28, 16)), std::string::npos);
  }
}

TEST(PrivateKey, SignatureHoldsForItsMessageAndKeyOnly) {
  const TestAuthority authority = TestAuthority::create();
  const KeyPair one = authority.device("one");
  const KeyPair two = authority.device("two");
  Bytes signature = one.key.sign("round 7").value();
  EXPECT_TRUE(one.certificate.verify("round 7", signature));
  EXPECT_FALSE(one.certificate.verify("round 8", signature));
  EXPECT_FALSE(one.certificate.verify("", signature));
  EXPECT_FALSE(two.certificate.verify("round 7", signature));
  for (std::size_t size = 0; size < signature.size(); ++size) {
    EXPECT_FALSE(one.certificate.verify("round 7", ByteView(signature).first(size)));
  }
  signature[signature.size() / 2] ^= std::byte{1};
  EXPECT_FALSE(one.certificate.verify("round 7", signature));
}

TEST(SigningRequest, HasAnEmptySubject) {
  const std::string pem = make_signing_request(PrivateKey::generate().value()).value();
  const Bytes der = pem_decode("CERTIFICATE REQUEST", pem).value();
  const auto* at = reinterpret_cast<const unsigned char*>(der.data());
  const SigningRequestPtr request(d2i_X509_REQ(nullptr, &at, static_cast<long>(der.size())));
  ASSERT_TRUE(request);
  EXPECT_EQ(X509_NAME_entry_count(X509_REQ_get_subject_name(request.get())), 0);
}
