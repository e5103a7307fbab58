#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace muster::http {

// Why a head is refused: the status, the stable code of the problem body, and a sentence. The
// connection always ends with it, because where the next request would begin is not certain.
struct Refusal {
  int status = 400;
  std::string code;
  std::string detail;
};

// A request's head, checked: each part has exactly one reading.
struct Head {
  std::string method;
  std::string path;  // begins with '/'; characters of RFC 3986 paths only, nothing decoded
  std::map<std::string, std::string> query;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string host;                            // lower case, without the port
  std::optional<std::uint64_t> content_length;
  bool close = false;            // Connection: close
  bool expect_continue = false;  // Expect: 100-continue

  // True when no route can have this path: empty or dot segments, escapes, reserved characters.
  bool path_is_foreign = false;
};

struct HeadLimits {
  std::uint64_t bytes = 16 * 1024;
  std::size_t fields = 64;
};

// Finds the end of a head while it arrives, so that a bad or endless one is refused at its first
// wrong byte and not when its deadline ends. One object for one head.
class HeadScanner {
 public:
  explicit HeadScanner(HeadLimits limits) : limits_(limits) {}

  // `head` is everything received so far; it only ever grows between calls. Gives the length of the
  // head with its closing empty line once that is there, 0 while more is needed.
  // Refuses (400) a line feed without carriage return, the reverse, NUL and other control
  // characters, an empty first line, and (431) more bytes or fields than the limits.
  tl::expected<std::size_t, Refusal> scan(std::string_view head);

 private:
  HeadLimits limits_;
  std::size_t seen_ = 0;
  std::size_t lines_ = 0;
  std::size_t line_start_ = 0;
};

// Reads a whole head, closing empty line included (RFC 9112 sections 2 to 6), more strictly than
// the RFC asks wherever two implementations could read it differently: no folding, no repeated
// field name, no Transfer-Encoding, one Content-Length of plain digits, one Host, origin-form only,
// HTTP/1.1 only. Pure: no state, no clock.
tl::expected<Head, Refusal> parse_head(std::string_view head, const HeadLimits& limits = {});

// RFC 9110 section 5.6.2.
bool is_token(std::string_view text);
// Visible ASCII, spaces and tabs, none of the latter two at either end.
bool is_field_value(std::string_view text);
// The media type and, at most, "; charset=utf-8".
bool content_type_matches(std::string_view value, std::string_view wanted);

std::string to_lower(std::string_view text);

}  // namespace muster::http
