#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/base/json.h"
#include "server/http/route.h"

namespace muster {

// A handler that answers at once: what `call` returns, or its error as problem+json.
inline http::Handler answering(std::function<Result<http::Response>(http::Request&)> call) {
  return [call = std::move(call)](std::shared_ptr<http::Request> request, http::Responder respond) {
    Result<http::Response> response = call(*request);
    respond(response ? *std::move(response) : http::Response::from_error(response.error()));
  };
}

// The request's body as checked JSON.
inline Result<Json> body_json(const http::Request& request) {
  return parse_json(request.body);
}

}  // namespace muster
