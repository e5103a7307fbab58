#include "server/http/response_writer.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/base/json.h"
#include "core/protocol/messages.h"
#include "server/http/head_parser.h"

namespace muster::http {
namespace {

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 204:
      return "No Content";
    case 206:
      return "Partial Content";
    case 304:
      return "Not Modified";
    default:
      return protocol::title_of(status);
  }
}

bool has_body(int status) {
  return status >= 200 && status != 204 && status != 304;
}

bool fields_are_sound(const Response& response) {
  if (response.status < 200 || response.status > 599) return false;
  if (!is_field_value(response.content_type)) return false;
  return std::all_of(response.headers.begin(), response.headers.end(), [](const auto& field) {
    const std::string name = to_lower(field.first);
    return is_token(name) && is_field_value(field.second) && name != "content-length" &&
           name != "transfer-encoding" && name != "connection" && name != "content-type";
  });
}

// The request id goes into the body, the code comes back for the log.
std::string complete_problem(std::string& body, const std::string& request_id) {
  Json json = Json::parse(body, nullptr, false);
  if (!json.is_object()) return "problem";
  json["request_id"] = request_id;
  body = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  const auto code = json.find("code");
  return code != json.end() && code->is_string() ? code->get<std::string>() : "problem";
}

}  // namespace

WireResponse write_response(Response response, const std::string& request_id,
                            const std::string& method, bool close) {
  WireResponse wire;
  const bool sound = fields_are_sound(response);
  if (!sound) {
    response = Response::from_error(Error{ErrorCode::kInternal, "bad response field", {}});
  }
  if (response.content_type == "application/problem+json") {
    wire.problem = complete_problem(response.body, request_id);
  }
  if (!sound) wire.problem = "internal: the handler set a header that no response may have";
  wire.status = response.status;
  wire.close = close || response.close;

  const std::uint64_t length = response.file ? response.file->bytes : response.body.size();
  std::string& out = wire.bytes;
  out.reserve(512 + (response.file ? 0 : response.body.size()));
  out.append("HTTP/1.1 ").append(std::to_string(wire.status)).append(" ");
  out.append(reason_phrase(wire.status)).append("\r\n");
  const auto field = [&](std::string_view name, std::string_view value) {
    out.append(name).append(": ").append(value).append("\r\n");
  };
  if (has_body(wire.status)) {
    if (!response.content_type.empty()) field("Content-Type", response.content_type);
    field("Content-Length", std::to_string(length));
  }
  bool caching_is_said = false;
  for (const auto& [name, value] : response.headers) {
    caching_is_said = caching_is_said || to_lower(name) == "cache-control";
    field(name, value);
  }
  if (!caching_is_said) field("Cache-Control", "no-store");
  field("X-Content-Type-Options", "nosniff");
  field("Muster-Request-Id", request_id);
  if (wire.close) field("Connection", "close");
  out.append("\r\n");

  if (has_body(wire.status) && method != "HEAD") {
    if (response.file) {
      wire.file = std::move(response.file);
    } else {
      out.append(response.body);
    }
  }
  return wire;
}

}  // namespace muster::http
