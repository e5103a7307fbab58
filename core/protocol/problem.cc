#include <fmt/format.h>

#include "core/protocol/fields.h"
#include "core/protocol/messages.h"

namespace muster::protocol {
namespace {

constexpr std::size_t kTitleBytes = 256;
constexpr std::size_t kDetailBytes = 8192;

std::string type_of(const std::string& code) {
  return "urn:muster:problem:" + code;
}
}  // namespace

std::string_view title_of(int status) {
  switch (status) {
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 410:
      return "Gone";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 416:
      return "Range Not Satisfiable";
    case 417:
      return "Expectation Failed";
    case 421:
      return "Misdirected Request";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    case 507:
      return "Insufficient Storage";
    default:
      return status < 500 ? "Client Error" : "Server Error";
  }
}

Json to_json(const Problem& message) {
  return {{"type", type_of(message.code)}, {"title", std::string(title_of(message.status))},
          {"status", message.status},      {"detail", message.detail},
          {"code", message.code},          {"request_id", message.request_id}};
}

Result<Problem> problem_from_json(const Json& json) {
  Problem message;
  JsonObject object(json, "problem");
  message.code = fields::name(object, "code");
  const std::string type = object.text("type");
  if (object.ok() && type != type_of(message.code)) {
    object.fail("type", fmt::format("{} found, {} is wanted for this code", describe(Json(type)),
                                    type_of(message.code)));
  }
  fields::bounded_text(object, "title", kTitleBytes);
  message.status = static_cast<int>(object.integer("status", {400, 599}));
  message.detail = fields::bounded_text(object, "detail", kDetailBytes);
  message.request_id = fields::name(object, "request_id");
  MUSTER_TRY_STATUS(object.finish());
  return message;
}

}  // namespace muster::protocol
