#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "certs/tls.h"
#include "core/base/error.h"
#include "server/http/route.h"

namespace muster::http {

// Limits of a listener. Every wait ends; every byte count has a bound.
struct FrontDoorLimits {
  std::chrono::milliseconds handshake{5'000};  // total, accept to finished handshake
  std::chrono::milliseconds head{10'000};   // total, first byte of a request to the end of its head
  std::chrono::milliseconds idle{120'000};  // between requests on a connection
  std::chrono::milliseconds answer{90'000};  // handler's time, long polls included
  std::uint64_t head_bytes = 16 * 1024;
  std::size_t header_fields = 64;
  std::uint64_t min_rate_bytes_per_s = 1'024;  // of a body in either direction, in each window
  std::chrono::milliseconds rate_window{10'000};
  std::size_t connections = 4'096;  // more are closed at once after accept; see FrontDoor::start
  std::size_t connections_per_address = 2'048;
  std::uint64_t requests_per_connection = 100'000;
};

struct FrontDoorOptions {
  std::string bind_address = "0.0.0.0";
  int port = 0;                    // 0: any free one
  std::vector<std::string> hosts;  // accepted in Host (without port); others get 421
  FrontDoorLimits limits;
  std::size_t worker_threads = 4;      // for handlers
  std::filesystem::path spool_folder;  // for BodyRule::kSpool
};

// One line per finished request or refused connection, for the access log.
struct AccessRecord {
  std::string request_id;
  std::string peer;          // address:port
  std::string caller;        // "device device-01"; empty when unknown
  std::string method, path;  // printable
  int status = 0;            // 0: the connection ended before a response
  std::uint64_t bytes_in = 0, bytes_out = 0;
  std::chrono::microseconds took{0};
  std::string problem;  // code of the problem, or why the connection was closed
};

// The one way into the server: accepts TCP, does the TLS handshake, reads and strictly checks
// request heads (RFC 9112) under byte budgets and total deadlines, looks up the route and the
// caller's role, takes the body, and only then hands the complete request to a worker thread. All
// sockets are served by one thread (Asio), so a slow peer costs memory for its buffers and nothing
// else. docs/decisions/0003-front-door.md says why this and not cpp-httplib's server.
//
// `log` is called on the socket thread: it must be quick. Order of calls: construct, `start` once,
// `stop` once, not from a handler. Handlers may outlive neither: `stop` waits for them.
class FrontDoor {
 public:
  FrontDoor(FrontDoorOptions options, TlsContext tls, std::vector<Route> routes,
            std::function<void(const AccessRecord&)> log);
  ~FrontDoor();

  // Binds and listens (backlog SOMAXCONN). Of the process's descriptors (RLIMIT_NOFILE) 64 stay for
  // files, so the cap on connections may be lower than `limits.connections`. Errors: kUnavailable,
  // reason "port_taken" or "bind_failed".
  Status start();
  int port() const;

  // No new connections; idle ones close; running requests finish within `grace`; then everything is
  // closed and joined.
  void stop(std::chrono::milliseconds grace);

  std::size_t open_connections() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::http
