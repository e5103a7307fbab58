#pragma once

#include <exception>
#include <memory>
#include <utility>

#include "server/http/connection.h"

namespace muster::http {

// The templates of Connection, for its .cc files alone.

// Runs an event. What it throws (no memory, as a rule) ends this connection and touches no other.
template <typename Function>
void Connection::guarded(Function function) {
  try {
    function();
  } catch (const std::exception& error) {
    close(std::string("internal: ") + error.what());
  }
}

template <typename Work, typename Then>
void Connection::on_disk(Work work, Then then) {
  using Outcome = decltype(work());
  door_.disk.post([io = door_.io, self = shared_from_this(), work = std::move(work),
                   then = std::move(then)]() mutable {
    auto outcome = std::make_shared<Outcome>(Error{ErrorCode::kInternal, "disk job", {}});
    try {
      *outcome = work();
    } catch (const std::exception& error) {
      *outcome = Outcome(Error{ErrorCode::kInternal, error.what(), {}});
    }
    asio::post(*io, [self = std::move(self), outcome, then = std::move(then)]() mutable {
      if (self->phase_ == Phase::kClosed) return;
      self->guarded([&] { then(std::move(*outcome)); });
    });
  });
}

}  // namespace muster::http
