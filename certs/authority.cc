#include "certs/authority.h"

#include <fmt/format.h>

#include <algorithm>

#include "certs/certificate_builder.h"
#include "certs/host.h"
#include "certs/openssl.h"
#include "certs/signing_request.h"
#include "core/base/file.h"
#include "core/base/names.h"

namespace muster {
namespace {

constexpr std::string_view kCommonName = "Muster authority";
constexpr const char* kCertificateFile = "authority.pem";
constexpr const char* kKeyFile = "authority.key";
constexpr std::chrono::hours kRootLifetime{24 * 3652};  // ten years, with their leap days
constexpr std::chrono::hours kClockTolerance{1};

Status check_hosts(const Identity& identity, const std::vector<std::string>& hosts) {
  if (!hosts.empty() && identity.role != Role::kServer) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("certificate for {}: {} host names given; only a server has them",
                             identity.uri(), hosts.size()),
                 "bad_host"};
  }
  for (const auto& host : hosts) {
    if (is_dns_name(host) || is_ip_address(host)) continue;
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("host \"{}\" is neither a DNS name nor an IP address", printable(host)),
        "bad_host"};
  }
  return {};
}

}  // namespace

Result<Authority> Authority::create(WallTime now) {
  MUSTER_TRY(PrivateKey key, PrivateKey::generate());
  CertificateBuilder builder(nullptr);
  const WallTime start = now - kClockTolerance;
  builder.set_validity(start, start + kRootLifetime);
  builder.set_common_name(kCommonName);
  builder.set_public_key(key.native());
  // One level only: this root signs leaves, never another authority.
  builder.add_extension(NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  builder.add_extension(NID_key_usage, "critical,keyCertSign,cRLSign");
  builder.add_extension(NID_subject_key_identifier, "hash");
  MUSTER_TRY(Certificate certificate, builder.sign(key.native()));
  return Authority(std::move(certificate), std::move(key));
}

Result<Authority> Authority::read(const std::filesystem::path& folder) {
  MUSTER_TRY(Certificate certificate, Certificate::read(folder / kCertificateFile));
  MUSTER_TRY(PrivateKey key, PrivateKey::read(folder / kKeyFile));
  const auto refuse = [&](std::string_view problem) {
    drain_openssl_errors();
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("authority in {}: {}", folder.string(), problem), "bad_authority"};
  };
  if (X509_check_private_key(certificate.native(), key.native()) != 1) {
    return refuse(fmt::format("{} and {} do not belong together", kCertificateFile, kKeyFile));
  }
  if (X509_check_ca(certificate.native()) != 1) {
    return refuse(
        fmt::format("{} is no certificate authority (CA:TRUE is missing)", kCertificateFile));
  }
  return Authority(std::move(certificate), std::move(key));
}

Status Authority::write(const std::filesystem::path& folder) const {
  // The key first: a certificate without its key would look like an authority that can issue.
  MUSTER_TRY_STATUS(key_.write(folder / kKeyFile));
  return write_file_durably(folder / kCertificateFile, as_bytes(certificate_.pem()), 0644);
}

Result<Certificate> Authority::issue(std::string_view signing_request_pem, const Identity& identity,
                                     WallTime now, std::chrono::hours lifetime,
                                     const std::vector<std::string>& hosts) const {
  MUSTER_TRY_STATUS(check_name("certificate name", identity.name));
  MUSTER_TRY_STATUS(check_hosts(identity, hosts));
  if (lifetime <= std::chrono::hours::zero()) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("certificate lifetime of {} hours; wanted at least 1", lifetime.count()),
        "bad_lifetime"};
  }
  const WallTime root_end = certificate_.not_after();
  if (now >= root_end) {
    return Error{ErrorCode::kFailedPrecondition,
                 "the authority's own certificate has expired; a new authority is needed",
                 "authority_expired"};
  }
  MUSTER_TRY(const KeyPtr key, read_signing_request(signing_request_pem));

  CertificateBuilder builder(certificate_.native());
  builder.set_validity(now - kClockTolerance,
                       std::min(root_end, now + std::min(lifetime, kRootLifetime)));
  builder.set_common_name(identity.name);
  builder.set_public_key(key.get());
  builder.add_extension(NID_basic_constraints, "critical,CA:FALSE");
  builder.add_extension(NID_key_usage, "critical,digitalSignature");
  builder.add_extension(NID_ext_key_usage,
                        identity.role == Role::kServer ? "serverAuth" : "clientAuth");
  builder.add_extension(NID_subject_key_identifier, "hash");
  builder.add_extension(NID_authority_key_identifier, "keyid:always");
  builder.add_alternative_names(identity.uri(), hosts);
  return builder.sign(key_.native());
}

Result<KeyPair> issue_key_pair(const Authority& authority, const Identity& identity, WallTime now,
                               std::chrono::hours lifetime, const std::vector<std::string>& hosts) {
  MUSTER_TRY(PrivateKey key, PrivateKey::generate());
  MUSTER_TRY(const std::string request, make_signing_request(key));
  MUSTER_TRY(Certificate certificate, authority.issue(request, identity, now, lifetime, hosts));
  return KeyPair{std::move(key), std::move(certificate)};
}

}  // namespace muster
