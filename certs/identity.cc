#include "certs/identity.h"

#include <fmt/format.h>

#include <array>

#include "core/base/bytes.h"
#include "core/base/names.h"

namespace muster {
namespace {

constexpr std::string_view kPrefix = "urn:muster:";
constexpr std::array kRoles = {Role::kDevice, Role::kOperator, Role::kAuditor, Role::kServer};

Error bad_identity(std::string_view uri, std::string_view problem) {
  return Error{ErrorCode::kUnauthenticated,
               fmt::format("identity \"{}\" {}; wanted urn:muster:ROLE:NAME with the role device, "
                           "operator, auditor or server",
                           printable(uri), problem),
               "bad_identity"};
}

}  // namespace

std::string_view to_string(Role role) {
  switch (role) {
    case Role::kDevice:
      return "device";
    case Role::kOperator:
      return "operator";
    case Role::kAuditor:
      return "auditor";
    case Role::kServer:
      return "server";
  }
  return "unknown";
}

std::string Identity::uri() const {
  return fmt::format("{}{}:{}", kPrefix, to_string(role), name);
}

Result<Identity> Identity::from_uri(std::string_view uri) {
  if (!uri.starts_with(kPrefix)) return bad_identity(uri, "is of another scheme");
  const std::string_view rest = uri.substr(kPrefix.size());
  const std::size_t colon = rest.find(':');
  if (colon == std::string_view::npos) return bad_identity(uri, "has no name");
  const std::string_view name = rest.substr(colon + 1);
  for (const Role role : kRoles) {
    if (rest.substr(0, colon) != to_string(role)) continue;
    if (!is_name(name)) return bad_identity(uri, "has a bad name");
    return Identity{role, std::string(name)};
  }
  return bad_identity(uri, "has an unknown role");
}

}  // namespace muster
