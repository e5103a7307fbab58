#include "server/http/admission.h"

#include <exception>
#include <optional>
#include <utility>

namespace muster::http {
namespace {

std::optional<Response> check_role(const Route& route, const Peer& peer) {
  if (route.roles.empty()) return std::nullopt;
  if (peer.identity && route.roles.count(peer.identity->role) != 0) return std::nullopt;
  std::string list;
  for (const Role role : route.roles) {
    list += (list.empty() ? "" : ", ") + std::string(to_string(role));
  }
  const std::string found =
      peer.identity ? "the certificate's role is " + std::string(to_string(peer.identity->role))
                    : "there is no certificate";
  return Response::problem(403, "wrong_role", "This call is for " + list + "; " + found + ".");
}

Response too_large(std::uint64_t found, std::uint64_t limit) {
  return Response::problem(413, "body_too_large",
                           "The body has " + std::to_string(found) + " bytes; at most " +
                               std::to_string(limit) + " are accepted here.");
}

std::optional<Response> check_body(const Request& request, const BodyRule& rule,
                                   const std::optional<std::uint64_t>& length) {
  const bool wants_length =
      request.method == "POST" || request.method == "PUT" || rule.kind != BodyRule::Kind::kNone;
  if (!length && wants_length) {
    return Response::problem(411, "length_required", "Content-Length is missing.");
  }
  const std::string& coding = request.header("content-encoding");
  if (!coding.empty() && to_lower(coding) != "identity") {
    return Response::problem(415, "unsupported_encoding",
                             "The body must not have a Content-Encoding.");
  }
  const std::uint64_t bytes = length.value_or(0);
  if (rule.kind == BodyRule::Kind::kNone) {
    if (bytes > 0) return too_large(bytes, 0);
    return std::nullopt;
  }
  const std::string& type = request.header("content-type");
  if (!rule.content_type.empty() && !(bytes == 0 && type.empty()) &&
      !content_type_matches(type, rule.content_type)) {
    return Response::problem(415, "unsupported_media_type",
                             "The Content-Type must be " + rule.content_type + ".");
  }
  if (rule.kind == BodyRule::Kind::kMemory) {
    if (bytes > rule.limit_bytes) return too_large(bytes, rule.limit_bytes);
    return std::nullopt;
  }
  if (!rule.admit) {
    if (bytes > rule.limit_bytes) return too_large(bytes, rule.limit_bytes);
    return std::nullopt;
  }
  try {
    auto limit = rule.admit(request);
    if (!limit) return std::move(limit).error();
    if (bytes > *limit) return too_large(bytes, *limit);
  } catch (const std::exception&) {
    return Response::from_error(Error{ErrorCode::kInternal, "admit failed", {}});
  }
  return std::nullopt;
}

}  // namespace

tl::expected<Admitted, Response> admit(Head head, const Caller& caller, const Router& router,
                                       const std::set<std::string>& hosts, std::string request_id) {
  const auto length = head.content_length;
  const bool may_have_body =
      length.value_or(0) > 0 || (!length && (head.method == "POST" || head.method == "PUT"));
  const auto refuse = [&](Response response) {
    response.close = response.close || may_have_body;
    return tl::unexpected(std::move(response));
  };

  if (hosts.count(head.host) == 0) {
    auto response = Response::problem(421, "wrong_host", "This server has another name.");
    response.close = true;
    return refuse(std::move(response));
  }
  if (caller.certificate_wanted && !caller.peer.identity) {
    auto response = Response::problem(403, "bad_identity", caller.identity_problem);
    response.close = true;
    return refuse(std::move(response));
  }
  auto match = router.find(head);
  if (!match) return refuse(std::move(match).error());
  if (auto refusal = check_role(*match->route, caller.peer)) return refuse(std::move(*refusal));

  auto request = std::make_shared<Request>();
  request->id = std::move(request_id);
  request->method = std::move(head.method);
  request->path = std::move(head.path);
  request->params = std::move(match->params);
  request->query = std::move(head.query);
  request->headers = std::move(head.headers);
  request->peer = caller.peer;
  if (auto refusal = check_body(*request, match->route->body, length)) {
    return refuse(std::move(*refusal));
  }
  return Admitted{std::move(request), match->route, length.value_or(0)};
}

}  // namespace muster::http
