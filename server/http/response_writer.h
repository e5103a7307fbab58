#pragma once

#include <optional>
#include <string>

#include "server/http/message.h"

namespace muster::http {

// A response in the form in which it goes out.
struct WireResponse {
  int status = 200;
  std::string bytes;  // head, and the body unless it is a file
  std::optional<FileSlice> file;
  bool close = false;
  std::string problem;  // the problem body's code; empty for other bodies
};

// Writes the status line and the fields that every response has, fills the request id into a
// problem body, and checks what the handler set: a header name that is no token, a value with a
// control character, or a field that frames the message (Content-Length, Transfer-Encoding,
// Connection) turns the whole response into a 500, so that nothing a handler copied from a request
// can split a response. `method` HEAD leaves the body out.
WireResponse write_response(Response response, const std::string& request_id,
                            const std::string& method, bool close);

}  // namespace muster::http
