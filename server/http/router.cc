#include "server/http/router.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace muster::http {
namespace {

constexpr std::size_t kMostSegments = 16;
constexpr std::size_t kLongestParam = 128;

std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> segments;
  for (std::size_t start = 1; start < path.size() && segments.size() <= kMostSegments;) {
    const auto end = std::min(path.find('/', start), path.size());
    segments.emplace_back(path.substr(start, end - start));
    start = end + 1;
  }
  return segments;
}

bool is_placeholder(const std::string& segment) {
  return segment.size() > 2 && segment.front() == '{' && segment.back() == '}';
}

bool is_param(const std::string& text) {
  return !text.empty() && text.size() <= kLongestParam &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
         });
}

std::optional<std::map<std::string, std::string>> match(const std::vector<std::string>& pattern,
                                                        const std::vector<std::string>& path) {
  if (pattern.size() != path.size()) return std::nullopt;
  std::map<std::string, std::string> params;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (is_placeholder(pattern[i])) {
      if (!is_param(path[i])) return std::nullopt;
      params[pattern[i].substr(1, pattern[i].size() - 2)] = path[i];
    } else if (pattern[i] != path[i]) {
      return std::nullopt;
    }
  }
  return params;
}

// Whether pattern `a` is more literal than `b` at the first segment where they differ in kind.
bool is_more_literal(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (is_placeholder(a[i]) != is_placeholder(b[i])) return is_placeholder(b[i]);
  }
  return false;
}

}  // namespace

Router::Router(std::vector<Route> routes)
    : methods_{"GET",     "HEAD",  "POST",  "PUT",    "DELETE",
               "OPTIONS", "PATCH", "TRACE", "CONNECT"} {  // RFC 9110 section 9, RFC 5789
  for (Route& route : routes) {
    methods_.insert(route.method);
    auto segments = split(route.pattern);
    rows_.push_back({std::move(route), std::move(segments)});
  }
}

tl::expected<Router::Match, Response> Router::find(const Head& head) const {
  if (methods_.count(head.method) == 0) {
    return tl::unexpected(
        Response::problem(501, "method_unknown", "The server knows no such method."));
  }
  const Row* best = nullptr;
  std::map<std::string, std::string> best_params;
  std::set<std::string> allowed;
  const auto path = head.path_is_foreign ? std::vector<std::string>() : split(head.path);
  for (const Row& row : rows_) {
    if (head.path_is_foreign) break;
    auto params = match(row.segments, path);
    if (!params) continue;
    allowed.insert(row.route.method);
    if (row.route.method != head.method) continue;
    if (best != nullptr && !is_more_literal(row.segments, best->segments)) continue;
    best = &row;
    best_params = std::move(*params);
  }
  if (best != nullptr) return Match{&best->route, std::move(best_params)};
  if (allowed.empty()) {
    return tl::unexpected(Response::problem(404, "not_found", "There is nothing at this path."));
  }
  std::string list;
  for (const std::string& method : allowed) list += (list.empty() ? "" : ", ") + method;
  auto response = Response::problem(405, "method_not_allowed", "This path takes " + list + ".");
  response.headers.emplace_back("Allow", list);
  return tl::unexpected(std::move(response));
}

}  // namespace muster::http
