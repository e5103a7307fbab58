#include <exception>
#include <thread>
#include <utility>

#include "server/http/responder_state.h"
#include "server/http/route.h"

namespace muster::http {

Responder::Responder(std::shared_ptr<State> state) : state_(std::move(state)) {}
Responder::Responder(Responder&&) noexcept = default;

Responder& Responder::operator=(Responder&& other) noexcept {
  Responder old(std::move(state_));  // answers 500 if it had a request of its own
  state_ = std::move(other.state_);
  return *this;
}

Responder::~Responder() {
  if (state_ == nullptr) return;
  const bool will_be_caught =
      std::uncaught_exceptions() > 0 && state_->handler_thread.load() == std::this_thread::get_id();
  if (will_be_caught) return;
  state_->answer(Response::from_error(Error{ErrorCode::kInternal, "no answer", {}}),
                 "internal: the handler gave no answer");
}

void Responder::operator()(Response response) {
  if (state_ != nullptr) state_->answer(std::move(response));
}

bool Responder::peer_gone() const {
  return state_ == nullptr || state_->peer_gone;
}

}  // namespace muster::http
