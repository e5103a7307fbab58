#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <tl/expected.hpp>

#include "server/http/head_parser.h"
#include "server/http/route.h"
#include "server/http/router.h"

namespace muster::http {

// A request that may send its body now.
struct Admitted {
  std::shared_ptr<Request> request;  // without its body
  const Route* route;
  std::uint64_t body_bytes;  // exactly
};

// What the handshake said about the caller.
struct Caller {
  Peer peer;
  bool certificate_wanted = false;  // the listener asks for certificates ...
  std::string identity_problem;     // ... and this one speaks for nobody: why
};

// Decides on a checked head alone, before a byte of the body is read, in this order: the host
// (421), the caller's identity (403), the route (404, 405, 501), the role (403), the body's length,
// coding, type and size (411, 415, 413), and last the route's own `admit`. A refusal's response
// closes the connection whenever the request may have a body.
tl::expected<Admitted, Response> admit(Head head, const Caller& caller, const Router& router,
                                       const std::set<std::string>& hosts, std::string request_id);

}  // namespace muster::http
