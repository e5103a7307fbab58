#pragma once

#include <chrono>
#include <string>

#include "core/base/bytes.h"
#include "core/base/error.h"

// Private to certs.
namespace muster {

// A TCP connection whose every wait ends at one deadline, whatever the peer does: one that sends a
// byte now and then gains nothing. Owned by one function on one thread; closes when destroyed. A
// peer that has gone raises no SIGPIPE. Errors: kUnavailable, reason "timeout" once the deadline
// has passed.
class TimedSocket {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // Tries the addresses of `host` in the resolver's order until one answers. The resolver itself
  // waits as long as the system's settings say.
  static Result<TimedSocket> connect(const std::string& host, int port, Deadline deadline);

  TimedSocket(TimedSocket&& other) noexcept;
  TimedSocket& operator=(TimedSocket&&) = delete;
  ~TimedSocket();

  // Sends all of it.
  Status send(ByteView bytes);
  // What has come, at least one byte; 0 when the peer has closed.
  Result<std::size_t> receive(std::span<std::byte> buffer);
  // Sends what the socket takes without a wait: for a farewell.
  void try_send(ByteView bytes);

 private:
  TimedSocket(int descriptor, Deadline deadline) : descriptor_(descriptor), deadline_(deadline) {}
  Status wait(short events);
  Status finish_connect();

  int descriptor_;
  Deadline deadline_;
};

}  // namespace muster
