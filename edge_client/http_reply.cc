#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/protocol/messages.h"
#include "edge_client/transport.h"

namespace muster {
namespace {

constexpr std::chrono::milliseconds kMostRetryAfter = std::chrono::hours(1);
constexpr std::size_t kMaxHostBytes = 253;  // RFC 1035 section 2.3.4, less the root's dot

Error bad_url(std::string_view text, std::string_view why) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("server \"{}\": {}; wanted https://host:port", printable(text), why),
          "bad_url"};
}

bool is_host(std::string_view host, bool bracketed) {
  if (host.empty() || host.size() > kMaxHostBytes) return false;
  return std::all_of(host.begin(), host.end(), [&](char c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return letter || (c >= '0' && c <= '9') || c == '.' || c == '-' || (bracketed && c == ':');
  });
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

ErrorCode code_of(int status) {
  switch (status) {
    case 401:
      return ErrorCode::kUnauthenticated;
    case 403:
      return ErrorCode::kPermissionDenied;
    case 404:
      return ErrorCode::kNotFound;
    case 409:
    case 410:
    case 421:
      return ErrorCode::kFailedPrecondition;
    case 413:
      return ErrorCode::kResourceExhausted;
    case 408:
    case 429:
      return ErrorCode::kUnavailable;
    default:
      break;
  }
  if (status >= 500) return ErrorCode::kUnavailable;
  return status >= 400 ? ErrorCode::kInvalidArgument : ErrorCode::kInternal;
}

}  // namespace

Result<ServerUrl> ServerUrl::parse(std::string_view text) {
  constexpr std::string_view kScheme = "https://";
  if (!text.starts_with(kScheme)) return bad_url(text, "it does not begin with https://");
  std::string_view rest = text.substr(kScheme.size());
  if (rest.find('@') != rest.npos) return bad_url(text, "it holds a user name");

  const bool bracketed = rest.starts_with('[');
  const std::size_t colon = bracketed ? rest.find("]:") : rest.find(':');
  if (colon == rest.npos) return bad_url(text, "the port is missing");
  const std::string_view host = bracketed ? rest.substr(1, colon - 1) : rest.substr(0, colon);
  const std::string_view port_text = rest.substr(colon + (bracketed ? 2 : 1));
  if (!is_host(host, bracketed)) return bad_url(text, "the host is not a name or an address");
  const auto port = whole_number(port_text);
  if (!port || *port < 1 || *port > 65535) {
    return bad_url(text, "what follows the host is not a port from 1 to 65535 alone");
  }
  return ServerUrl{std::string(host), static_cast<int>(*port)};
}

std::string ServerUrl::text() const {
  const bool bracketed = host.find(':') != host.npos;
  return fmt::format("https://{}{}{}:{}", bracketed ? "[" : "", host, bracketed ? "]" : "", port);
}

std::optional<std::chrono::milliseconds> HttpReply::retry_after() const {
  const auto read = [&](const char* name, std::int64_t unit_ms) -> std::optional<std::int64_t> {
    const auto header = headers.find(name);
    if (header == headers.end()) return std::nullopt;
    const auto value = whole_number(header->second);
    if (!value) return std::nullopt;
    return std::min<std::int64_t>(*value, kMostRetryAfter.count()) * unit_ms;
  };
  auto ms = read("muster-retry-after-ms", 1);
  if (!ms) ms = read("retry-after", 1000);
  if (!ms) return std::nullopt;
  return std::min(std::chrono::milliseconds(*ms), kMostRetryAfter);
}

Error HttpReply::error() const {
  const auto type = headers.find("content-type");
  if (type != headers.end() && type->second.starts_with("application/problem+json")) {
    if (auto json = parse_json(body); json) {
      if (auto problem = protocol::problem_from_json(*json); problem) {
        const ErrorCode code =
            problem->code == "already_reported" || problem->code == "device_exists"
                ? ErrorCode::kAlreadyExists
                : code_of(status);
        return {
            code,
            fmt::format("{} ({} {})", printable_sentence(problem->detail), status, problem->code),
            problem->code};
      }
    }
  }
  return {
      code_of(status),
      fmt::format("the server answered with status {} and no problem report; is there something "
                  "else than a Muster server on this port?",
                  status),
      "unexpected_answer"};
}

}  // namespace muster
