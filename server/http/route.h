#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "certs/identity.h"
#include "core/base/error.h"
#include "server/http/message.h"

namespace muster::http {

// How a handler answers: call it once, from any thread, now or later (a long poll keeps it until
// there is something to say and costs no thread meanwhile). A responder destroyed without a call
// answers 500. When the peer has gone, the answer is dropped silently; `peer_gone` tells.
class Responder {
 public:
  struct State;  // of the connection
  explicit Responder(std::shared_ptr<State> state);
  Responder(Responder&&) noexcept;
  Responder& operator=(Responder&&) noexcept;
  ~Responder();

  void operator()(Response response);
  bool peer_gone() const;

 private:
  std::shared_ptr<State> state_;
};

// Runs on a worker thread, never on the thread that serves the sockets. May block for the disk, not
// for the network.
using Handler = std::function<void(std::shared_ptr<Request> request, Responder respond)>;

// What body a route takes. The limit is known before the first byte is read.
struct BodyRule {
  enum class Kind { kNone, kMemory, kSpool };
  Kind kind = Kind::kNone;
  std::string content_type;       // wanted; another gives 415
  std::uint64_t limit_bytes = 0;  // kMemory
  // kSpool: asked with the head alone, on the socket thread: quick, no disk. The most bytes this
  // body may have, or the response that refuses it (whose connection is then closed).
  std::function<tl::expected<std::uint64_t, Response>(const Request& head)> admit;

  static BodyRule none() { return {}; }
  static BodyRule json(std::uint64_t limit_bytes = 256 * 1024) {
    return {Kind::kMemory, "application/json", limit_bytes, nullptr};
  }
};

// One row of the route table. The pattern's segments are literals or {name}; {name} takes one
// segment of letters, digits,
// '.', '_', '-' (at most 128).
struct Route {
  std::string method;
  std::string pattern;
  std::set<Role> roles;  // that may call it; empty: whoever reaches the listener
  BodyRule body;
  Handler handler;
};

}  // namespace muster::http
