#pragma once

#include <optional>
#include <string_view>

#include "server/http/head_parser.h"

namespace muster::http {

// Reads a request target (RFC 9112 section 3.2.1, origin-form) into `head.path` and `head.query`.
// Nothing is decoded, so a path has one spelling and an escape can hide nothing:
//   - a byte that no URI holds, an escaped control character, half an escape, a fragment: 400;
//   - a well-formed path that no route of ours can have (escapes, `..`, `//`, a backslash,
//     reserved characters) sets `path_is_foreign`, for which there is a 404;
//   - a query other than `a=b&c=d` of letters, digits, '.', '_', '-', '~', or with a repeated name:
//   400.
std::optional<Refusal> read_target(std::string_view target, Head& head);

// Letters, digits, '.', '_', '-', '~' (RFC 3986 section 2.3).
bool is_unreserved(char c);

}  // namespace muster::http
