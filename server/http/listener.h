#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/base/error.h"
#include "server/http/asio.h"

namespace muster::http {

// A listening TCP socket that goes on accepting whatever happens. When descriptors run out it gives
// up one it holds in reserve, accepts with it, closes that connection and takes the reserve back,
// so that surplus peers are told at once and the backlog never stands still; if even that fails it
// waits a moment and tries again. It is closed by `close` alone.
//
// Owned by the front door; every call after `open` on the thread that runs `io`.
class Listener {
 public:
  // `accepted` takes over a connected, non-blocking, close-on-exec descriptor. `turned_away` hears
  // of a peer that was closed for lack of a descriptor.
  struct Events {
    std::function<void(int descriptor, const asio::ip::tcp::endpoint& peer)> accepted;
    std::function<void(const asio::ip::tcp::endpoint& peer)> turned_away;
  };

  // Errors: kUnavailable, reason "port_taken" or "bind_failed".
  static Result<std::unique_ptr<Listener>> open(asio::io_context& io, const std::string& address,
                                                int port);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int port() const { return port_; }
  void start(Events events);
  void close();

 private:
  Listener(asio::io_context& io, int descriptor, const asio::ip::tcp& protocol, int port);

  enum class Shed { kOne, kNothingWaits, kImpossible };

  void wait();
  void on_event();
  void accept_some();
  Shed shed_one();
  void pause();

  asio::ip::tcp::acceptor acceptor_;
  asio::steady_timer timer_;
  int port_;
  int reserve_;
  Events events_;
};

}  // namespace muster::http
