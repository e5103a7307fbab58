#pragma once

#include <filesystem>
#include <string>

#include "certs/certificate.h"
#include "certs/key.h"
#include "core/base/error.h"
#include "edge_client/transport.h"

namespace muster {

// The names in a device's folder. device.json is written last: where it is, the identity is whole.
namespace identity_files {
inline constexpr const char* kDevice = "device.json";
inline constexpr const char* kKey = "device.key";
inline constexpr const char* kCertificate = "device.pem";
inline constexpr const char* kAuthority = "authority.pem";
inline constexpr const char* kLock = "lock";
inline constexpr const char* kStates = "states";
inline constexpr const char* kPending = "pending";
inline constexpr const char* kKept = "kept";
}  // namespace identity_files

// Whether the certificate is the device's: of its key, issued by the authority, speaking for its
// name. Errors: kInvalidArgument, reason "bad_certificate"; as Certificate::identity.
Status check_certificate(const Certificate& certificate, const Certificate& authority,
                         const PrivateKey& key, const std::string& name);

// Everything but the key, which is there already. `server` is the API.
Status write_identity(const std::filesystem::path& folder, const std::string& name,
                      const ServerUrl& server, const Certificate& authority,
                      const Certificate& certificate);

}  // namespace muster
