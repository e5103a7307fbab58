#include "server/http/message.h"

#include <system_error>
#include <utility>

#include "core/protocol/messages.h"

namespace muster::http {
namespace {

const std::string kNothing;

const std::string& find_or_empty(const std::map<std::string, std::string>& map,
                                 const std::string& name) {
  const auto found = map.find(name);
  return found == map.end() ? kNothing : found->second;
}

// Malformed input has 400; well-formed input that asks for the impossible has 422.
bool is_malformed(const std::string& reason) {
  return reason == "bad_json" || reason == "bad_header" || reason == "bad_layout" ||
         reason == "bad_statement" || reason == "bad_field" || reason == "version_unsupported";
}

int status_of(const Error& error) {
  if (error.reason == "round_closed" || error.reason == "artefact_missing") return 410;
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
      return is_malformed(error.reason) ? 400 : 422;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kAlreadyExists:
    case ErrorCode::kFailedPrecondition:
      return 409;
    case ErrorCode::kPermissionDenied:
      return 403;
    case ErrorCode::kUnauthenticated:
      return 401;
    case ErrorCode::kResourceExhausted:
      if (error.reason == "disk_full") return 507;
      return error.reason == "body_too_large" ? 413 : 429;
    case ErrorCode::kUnavailable:
    case ErrorCode::kDeadlineExceeded:
    case ErrorCode::kCancelled:
      return 503;
    case ErrorCode::kDataLoss:
    case ErrorCode::kInternal:
      return 500;
  }
  return 500;
}

std::string_view sentence_for(int status) {
  if (status == 507)
    return "The server has no room to store this; nothing was changed. Try again later.";
  if (status == 503) return "The server cannot do this now; nothing was changed. Try again later.";
  return "The server could not do this; its log has the request id.";
}

}  // namespace

SpooledBody::SpooledBody(std::filesystem::path path, std::uint64_t bytes, Digest digest)
    : path_(std::move(path)), bytes_(bytes), digest_(digest) {}

SpooledBody::~SpooledBody() {
  std::error_code ignored;
  if (!released_) std::filesystem::remove(path_, ignored);
}

const std::string& Request::header(const std::string& name) const {
  return find_or_empty(headers, name);
}

const std::string& Request::param(const std::string& name) const {
  return find_or_empty(params, name);
}

const std::string& Request::caller() const {
  return peer.identity ? peer.identity->name : kNothing;
}

Response Response::json(const Json& body, int status) {
  Response response;
  response.status = status;
  response.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  return response;
}

Response Response::no_content() {
  Response response;
  response.status = 204;
  response.content_type.clear();
  return response;
}

Response Response::problem(int status, std::string code, std::string detail) {
  Response response = json(
      protocol::to_json(protocol::Problem{status, std::move(code), std::move(detail), {}}), status);
  response.content_type = "application/problem+json";
  return response;
}

Response Response::from_error(const Error& error) {
  const int status = status_of(error);
  // What the disk or a fault of ours says names paths and internals: it is for the log alone.
  const bool internal = status >= 500;
  const std::string code = status == 500          ? "internal"
                           : error.reason.empty() ? std::string(to_string(error.code))
                                                  : error.reason;
  Response response =
      problem(status, code, internal ? std::string(sentence_for(status)) : error.message);
  if (internal) response.cause = error.message;
  if (status == 503 || status == 429) response.headers.emplace_back("Retry-After", "2");
  return response;
}

}  // namespace muster::http
