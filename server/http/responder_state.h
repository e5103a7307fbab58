#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "server/http/route.h"

namespace muster::http {

// What a Responder and its connection share. `deliver` is set before the handler runs and may be
// called from any thread, once: it hands the answer to the thread that serves the sockets, or drops
// it when the connection is no more. `note` is for the access log only.
struct Responder::State {
  std::atomic<bool> answered{false};
  std::atomic<bool> peer_gone{false};
  std::function<void(Response response, std::string note)> deliver;
  // The thread inside the handler, set around the call. A Responder that an exception destroys
  // there leaves the answer to whoever catches it, who knows what to write into the log.
  std::atomic<std::thread::id> handler_thread{};

  void answer(Response response, std::string note = {}) {
    if (!answered.exchange(true)) deliver(std::move(response), std::move(note));
  }
};

}  // namespace muster::http
