#pragma once

#include <string>
#include <string_view>

#include "core/base/error.h"

namespace muster {

// The three certificate roles, and the server's own.
enum class Role { kDevice, kOperator, kAuditor, kServer };

std::string_view to_string(Role role);

// Who a certificate speaks for. In the certificate it is the one URI in subjectAltName (RFC
// 5280, 4.2.1.6): "urn:muster:device:device-01". Nothing else in the certificate is read as
// identity.
struct Identity {
  Role role = Role::kDevice;
  std::string name;

  bool operator==(const Identity&) const = default;
  std::string uri() const;
  // Errors: kUnauthenticated, reason "bad_identity".
  static Result<Identity> from_uri(std::string_view uri);
};

}  // namespace muster
