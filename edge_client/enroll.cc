#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/x509.h>

#include <cstddef>

#include "certs/enrolment_code.h"
#include "certs/tls.h"
#include "core/base/file.h"
#include "core/base/names.h"
#include "core/protocol/messages.h"
#include "edge_client/client.h"
#include "edge_client/identity_files.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr int kAuthorityTimeoutMs = 10'000;

// A new folder is ours alone; one that is there keeps its mode (every private file in it has mode
// 0600 anyway).
Status make_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::is_directory(folder, error)) return {};
  fs::create_directories(folder, error);
  if (!error) fs::permissions(folder, fs::perms::owner_all, error);
  if (!error) return {};
  return Error{ErrorCode::kFailedPrecondition,
               fmt::format("create {}: {}", folder.string(), error.message())};
}

// The key of an earlier try whose answer was lost, or a new one.
Result<PrivateKey> own_key(const fs::path& file) {
  std::error_code error;
  if (fs::exists(file, error)) return PrivateKey::read(file);
  MUSTER_TRY(PrivateKey key, PrivateKey::generate());
  MUSTER_TRY_STATUS(key.write(file));
  return key;
}

Result<std::string> default_name(const PrivateKey& key) {
  unsigned char* der = nullptr;
  const int bytes = i2d_PUBKEY(key.native(), &der);
  if (bytes <= 0) return Error{ErrorCode::kInternal, "the key's public part cannot be written"};
  const Digest hash =
      sha256(as_bytes({reinterpret_cast<const char*>(der), static_cast<std::size_t>(bytes)}));
  OPENSSL_free(der);
  return "device-" + hash.hex().substr(0, 8);
}

Result<protocol::EnrollResponse> ask(const EnrollOptions& options, const Certificate& authority,
                                     const protocol::EnrollRequest& request) {
  Transport transport(
      {.server = options.server, .authority = authority, .certificate = std::nullopt});
  MUSTER_TRY(const HttpReply reply,
             transport.post_json("/v1/enroll", protocol::to_json(request), {}, 1 << 20, true));
  if (reply.status != 200) {
    Error error = reply.error();
    return error;
  }
  MUSTER_TRY(const Json json, parse_json(reply.body));
  return protocol::enroll_response_from_json(json);
}

}  // namespace

Result<std::string> enroll(const EnrollOptions& options) {
  MUSTER_TRY(const EnrolmentCode code, EnrolmentCode::parse(options.code));
  if (!options.name.empty()) MUSTER_TRY_STATUS(check_name("device name", options.name));
  MUSTER_TRY_STATUS(make_folder(options.folder));
  MUSTER_TRY(const FileLock lock, FileLock::acquire(options.folder / identity_files::kLock));
  std::error_code none;
  if (fs::exists(options.folder / identity_files::kDevice, none)) {
    return Error{
        ErrorCode::kAlreadyExists,
        fmt::format("{} holds a device identity already; use another folder, or remove this one",
                    options.folder.string()),
        "already_enrolled"};
  }
  MUSTER_TRY(const PrivateKey key, own_key(options.folder / identity_files::kKey));
  std::string name = options.name;
  if (name.empty()) {
    MUSTER_TRY(name, default_name(key));
  }
  MUSTER_TRY(const Certificate authority, fetch_authority(options.server.host, options.server.port,
                                                          code.authority, kAuthorityTimeoutMs));
  MUSTER_TRY(const std::string request, make_signing_request(key));
  MUSTER_TRY(const auto response, ask(options, authority, {code.secret, name, request}));

  MUSTER_TRY_IN("enrol", const Certificate certificate,
                Certificate::from_pem(response.certificate));
  MUSTER_TRY_IN("enrol", const Certificate told, Certificate::from_pem(response.authority));
  if (response.device != name || told.fingerprint() != code.authority) {
    return Error{ErrorCode::kInvalidArgument,
                 "enrol: the server's answer is for another device or authority",
                 "bad_certificate"};
  }
  if (auto checked = check_certificate(certificate, authority, key, name); !checked) {
    return with_context(std::move(checked).error(), "enrol");
  }
  const ServerUrl api{options.server.host, static_cast<int>(response.api_port)};
  MUSTER_TRY_STATUS(write_identity(options.folder, name, api, authority, certificate));
  return name;
}

}  // namespace muster
