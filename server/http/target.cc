#include "server/http/target.h"

#include <algorithm>

namespace muster::http {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<Refusal> check_path(std::string_view path, bool& foreign) {
  // RFC 3986 pchar without unreserved; the backslash is no URI character, but asks for a 404 too.
  constexpr std::string_view kReserved = "!$&'()*+,;=:@\\";
  for (std::size_t i = 0; i < path.size(); ++i) {
    const char c = path[i];
    if (is_unreserved(c) || c == '/') continue;
    foreign = true;
    if (kReserved.find(c) != std::string_view::npos) continue;
    const int high = c == '%' && i + 2 < path.size() ? hex_value(path[i + 1]) : -1;
    const int low = high >= 0 ? hex_value(path[i + 2]) : -1;
    const int code = high * 16 + low;
    if (low < 0 || code < 0x20 || code == 0x7f) {
      return Refusal{400, "bad_path", "The path holds a character that no path may hold."};
    }
    i += 2;
  }
  return std::nullopt;
}

// An empty segment, "." or "..".
bool has_dot_or_empty_segment(std::string_view path) {
  if (path == "/") return false;
  for (std::size_t start = 1; start <= path.size();) {
    const auto end = std::min(path.find('/', start), path.size());
    const auto segment = path.substr(start, end - start);
    if (segment.empty() || segment == "." || segment == "..") return true;
    start = end + 1;
  }
  return false;
}

std::optional<Refusal> read_query(std::string_view text, Head& head) {
  const Refusal refusal{
      400, "bad_query",
      "A query is a=b&c=d of letters, digits, '.', '_', '-', '~', each name once."};
  for (bool more = true; more;) {
    const auto end = text.find('&');
    const auto pair = text.substr(0, end);
    const auto equals = pair.find('=');
    if (equals == std::string_view::npos || equals == 0) return refusal;
    const auto name = pair.substr(0, equals);
    const auto value = pair.substr(equals + 1);
    if (!std::all_of(name.begin(), name.end(), is_unreserved) ||
        !std::all_of(value.begin(), value.end(), is_unreserved) ||
        !head.query.emplace(name, value).second) {
      return refusal;
    }
    more = end != std::string_view::npos;
    if (more) text.remove_prefix(end + 1);
  }
  return std::nullopt;
}

}  // namespace

bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-' || c == '~';
}

std::optional<Refusal> read_target(std::string_view target, Head& head) {
  if (target.empty() || target.front() != '/') {
    return Refusal{400, "bad_target", "The request target begins with a slash."};
  }
  const auto question = target.find('?');
  const auto path = target.substr(0, question);
  if (auto refusal = check_path(path, head.path_is_foreign)) return refusal;
  head.path_is_foreign = head.path_is_foreign || has_dot_or_empty_segment(path);
  head.path = path;
  // What belongs to no route needs no reading of its query, only that no byte of it is malformed.
  if (question != std::string_view::npos) return read_query(target.substr(question + 1), head);
  return std::nullopt;
}

}  // namespace muster::http
