#include "server/http/head_parser.h"

#include <algorithm>
#include <charconv>

#include "server/http/target.h"

namespace muster::http {
namespace {

using Unexpected = tl::unexpected<Refusal>;

Unexpected bad(std::string code, std::string detail) {
  return Unexpected(Refusal{400, std::move(code), std::move(detail)});
}

Unexpected refuse(int status, std::string code, std::string detail) {
  return Unexpected(Refusal{status, std::move(code), std::move(detail)});
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_alpha(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_visible(char c) {
  return c > 0x20 && c < 0x7f;
}

// Without spaces at either end. Tabs stay, and are refused: no client of ours sends them there, and
// what a tab before "chunked" means has been read in two ways by others.
std::string_view trim_spaces(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::optional<Refusal> read_request_line(std::string_view line, Head& head) {
  const auto first = line.find(' ');
  const auto last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) {
    return Refusal{400, "bad_request_line", "A request line is: method, path, version."};
  }
  const auto method = line.substr(0, first);
  const auto target = line.substr(first + 1, last - first - 1);
  const auto version = line.substr(last + 1);
  if (!is_token(method) || method.size() > 32) {
    return Refusal{400, "bad_method", "The method is no token of at most 32 characters."};
  }
  head.method = method;
  const bool is_http = version.size() == 8 && version.substr(0, 5) == "HTTP/" &&
                       is_digit(version[5]) && version[6] == '.' && is_digit(version[7]);
  if (!is_http) return Refusal{400, "bad_version", "The request line does not end in HTTP/1.1."};
  auto refusal = read_target(target, head);
  if (refusal) return refusal;
  if (version != "HTTP/1.1") {
    return Refusal{505, "version_not_supported", "This server speaks HTTP/1.1 only."};
  }
  return std::nullopt;
}

std::optional<Refusal> read_field(std::string_view line, Head& head) {
  if (line.front() == ' ' || line.front() == '\t') {
    return Refusal{400, "bad_header", "A folded header line is not accepted."};
  }
  const auto colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) {
    return Refusal{400, "bad_header", "A header name is a token directly followed by a colon."};
  }
  const auto value = trim_spaces(line.substr(colon + 1));
  if (!is_field_value(value)) {
    return Refusal{400, "bad_header",
                   "A header value holds visible ASCII, spaces and tabs inside."};
  }
  const auto [at, is_new] = head.headers.emplace(to_lower(line.substr(0, colon)), value);
  if (!is_new)
    return Refusal{400, "repeated_header", "A header was sent twice: " + at->first + "."};
  return std::nullopt;
}

std::optional<Refusal> read_length(Head& head) {
  const auto length = head.headers.find("content-length");
  const auto coding = head.headers.find("transfer-encoding");
  if (coding != head.headers.end()) {
    if (length != head.headers.end()) {
      return Refusal{400, "bad_framing",
                     "Content-Length and Transfer-Encoding exclude each other."};
    }
    if (to_lower(coding->second) == "chunked") {
      return Refusal{501, "transfer_encoding", "Send the body with a Content-Length."};
    }
    return Refusal{400, "bad_transfer_encoding", "Transfer-Encoding is not accepted."};
  }
  if (length == head.headers.end()) return std::nullopt;
  const std::string& text = length->second;
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), is_digit) &&
                     (text.size() == 1 || text.front() != '0');
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (!plain || error != std::errc{} || end != text.data() + text.size() ||
      value > (std::uint64_t{1} << 63)) {
    return Refusal{400, "bad_length", "Content-Length is no plain decimal number up to 2^63."};
  }
  head.content_length = value;
  return std::nullopt;
}

std::optional<Refusal> read_host(Head& head) {
  const auto field = head.headers.find("host");
  if (field == head.headers.end()) return Refusal{400, "bad_host", "The Host header is missing."};
  std::string_view text = field->second;
  const bool bracketed = !text.empty() && text.front() == '[';
  const auto name_end = bracketed ? text.find(']') : text.find(':');
  if (bracketed && name_end == std::string_view::npos) {
    return Refusal{400, "bad_host", "The Host header is no name or address with an optional port."};
  }
  const auto name = bracketed ? text.substr(1, name_end - 1) : text.substr(0, name_end);
  const auto rest = name_end == std::string_view::npos
                        ? std::string_view()
                        : text.substr(bracketed ? name_end + 1 : name_end);
  const auto good_name = [&](char c) {
    return is_alpha(c) || is_digit(c) || c == '.' || c == '-' || c == '_' ||
           (bracketed && c == ':');
  };
  const bool good_port =
      rest.empty() || (rest.front() == ':' && rest.size() >= 2 && rest.size() <= 6 &&
                       std::all_of(rest.begin() + 1, rest.end(), is_digit));
  if (name.empty() || name.size() > 255 || !std::all_of(name.begin(), name.end(), good_name) ||
      !good_port) {
    return Refusal{400, "bad_host", "The Host header is no name or address with an optional port."};
  }
  head.host = to_lower(name);
  return std::nullopt;
}

std::optional<Refusal> read_connection(Head& head) {
  if (const auto field = head.headers.find("connection"); field != head.headers.end()) {
    std::string_view rest = field->second;
    while (!rest.empty()) {
      const auto comma = rest.find(',');
      if (to_lower(trim_spaces(rest.substr(0, comma))) == "close") head.close = true;
      rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    }
  }
  if (const auto field = head.headers.find("expect"); field != head.headers.end()) {
    if (to_lower(field->second) != "100-continue") {
      return Refusal{417, "expectation_failed", "The only expectation known is 100-continue."};
    }
    head.expect_continue = true;
  }
  return std::nullopt;
}

}  // namespace

tl::expected<std::size_t, Refusal> HeadScanner::scan(std::string_view head) {
  for (; seen_ < head.size(); ++seen_) {
    if (seen_ >= limits_.bytes) {
      return refuse(431, "head_too_large",
                    "The head is longer than " + std::to_string(limits_.bytes) + " bytes.");
    }
    const char c = head[seen_];
    const bool after_return = seen_ > 0 && head[seen_ - 1] == '\r';
    if (after_return != (c == '\n')) {
      return bad("bad_line_end", "A line ends in CR LF, and neither stands alone.");
    }
    if (c == '\n') {
      const bool empty = seen_ - line_start_ == 1;
      if (empty && lines_ == 0) return bad("bad_request_line", "The request line is empty.");
      if (empty) return seen_ + 1;
      ++lines_;
      line_start_ = seen_ + 1;
    } else if (c != '\r' && c != '\t' && c != ' ' && !is_visible(c)) {
      return bad("bad_character", "The head holds a byte that is no visible ASCII.");
    } else if (c != '\r' && seen_ == line_start_ && lines_ > limits_.fields) {
      return refuse(431, "too_many_headers",
                    "The head has more than " + std::to_string(limits_.fields) + " fields.");
    }
  }
  return 0;
}

tl::expected<Head, Refusal> parse_head(std::string_view text, const HeadLimits& limits) {
  HeadScanner scanner(limits);
  const auto length = scanner.scan(text);
  if (!length) return Unexpected(length.error());
  if (*length == 0 || *length != text.size())
    return bad("bad_head", "The head does not end in one empty line.");

  Head head;
  bool first = true;
  for (text.remove_suffix(2); !text.empty();) {
    const auto end = text.find("\r\n");
    const auto line = text.substr(0, end);
    text.remove_prefix(end + 2);
    const auto refusal = first ? read_request_line(line, head) : read_field(line, head);
    if (refusal) return Unexpected(*refusal);
    first = false;
  }
  for (const auto step : {read_length, read_host, read_connection}) {
    if (const auto refusal = step(head)) return Unexpected(*refusal);
  }
  if (head.content_length.value_or(0) > 0 && (head.method == "GET" || head.method == "HEAD")) {
    return bad("unexpected_body", "A " + head.method + " request has no body.");
  }
  return head;
}

bool is_token(std::string_view text) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return is_alpha(c) || is_digit(c) || kMarks.find(c) != std::string_view::npos;
  });
}

bool is_field_value(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  if (!text.empty() && (is_blank(text.front()) || is_blank(text.back()))) return false;
  return std::all_of(text.begin(), text.end(),
                     [&](char c) { return is_visible(c) || is_blank(c); });
}

bool content_type_matches(std::string_view value, std::string_view wanted) {
  const auto semicolon = value.find(';');
  if (to_lower(trim_spaces(value.substr(0, semicolon))) != to_lower(wanted)) return false;
  return semicolon == std::string_view::npos ||
         to_lower(trim_spaces(value.substr(semicolon + 1))) == "charset=utf-8";
}

std::string to_lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

}  // namespace muster::http
