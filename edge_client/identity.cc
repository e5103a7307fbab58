#include <fmt/format.h>
#include <openssl/x509.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/names.h"
#include "edge_client/client.h"
#include "edge_client/identity_files.h"

namespace muster {

Status check_certificate(const Certificate& certificate, const Certificate& authority,
                         const PrivateKey& key, const std::string& name) {
  if (X509_check_private_key(certificate.native(), key.native()) != 1) {
    return Error{ErrorCode::kInvalidArgument,
                 "the certificate belongs to another key than this device's", "bad_certificate"};
  }
  EVP_PKEY* issuer = X509_get0_pubkey(authority.native());
  if (issuer == nullptr || X509_verify(certificate.native(), issuer) != 1) {
    return Error{ErrorCode::kInvalidArgument, "the certificate was not issued by the authority",
                 "bad_certificate"};
  }
  MUSTER_TRY(const Identity identity, certificate.identity());
  const Identity wanted{Role::kDevice, name};
  if (identity != wanted) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("the certificate speaks for {}, wanted {}", identity.uri(), wanted.uri()),
        "bad_certificate"};
  }
  return {};
}

Status write_identity(const std::filesystem::path& folder, const std::string& name,
                      const ServerUrl& server, const Certificate& authority,
                      const Certificate& certificate) {
  const auto write = [&](const char* file, const std::string& text) {
    return write_file_durably(folder / file, as_bytes(text));
  };
  MUSTER_TRY_STATUS(write(identity_files::kAuthority, authority.pem()));
  MUSTER_TRY_STATUS(write(identity_files::kCertificate, certificate.pem()));
  return write(identity_files::kDevice,
               Json{{"name", name}, {"server", server.text()}}.dump(2) + "\n");
}

Result<DeviceIdentity> DeviceIdentity::read(const std::filesystem::path& folder) {
  const auto device_file = folder / identity_files::kDevice;
  std::error_code none;
  if (!std::filesystem::exists(device_file, none)) {
    return Error{
        ErrorCode::kNotFound,
        fmt::format(
            "{} holds no device identity; run: muster-edge enroll --server https://HOST:PORT "
            "--code CODE --dir {}",
            folder.string(), folder.string()),
        "not_enrolled"};
  }
  MUSTER_TRY(const std::string text, read_file(device_file, 64 << 10));
  MUSTER_TRY_IN(device_file.string(), const Json json, parse_json(text));
  JsonObject object(json, device_file.string());
  const std::string name = object.text("name");
  const std::string server_text = object.text("server");
  MUSTER_TRY_STATUS(object.finish());
  MUSTER_TRY_STATUS(check_name("device name", name));
  MUSTER_TRY(ServerUrl server, ServerUrl::parse(server_text));
  MUSTER_TRY(PrivateKey key, PrivateKey::read(folder / identity_files::kKey));
  MUSTER_TRY(Certificate authority, Certificate::read(folder / identity_files::kAuthority));
  MUSTER_TRY(Certificate certificate, Certificate::read(folder / identity_files::kCertificate));
  if (auto checked = check_certificate(certificate, authority, key, name); !checked) {
    return with_context(std::move(checked).error(), folder.string());
  }
  return DeviceIdentity{name, std::move(server), std::move(authority), std::move(certificate),
                        std::move(key)};
}

}  // namespace muster
