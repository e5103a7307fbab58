#include "server/cli/interrupt.h"

#include <ctime>

namespace muster::cli {

Interrupt::Interrupt() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGINT);
  sigaddset(&signals_, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  watcher_ = std::jthread([this](const std::stop_token& ending) { watch(ending); });
}

Interrupt::~Interrupt() {
  watcher_.request_stop();
  watcher_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void Interrupt::watch(const std::stop_token& ending) {
  constexpr timespec kLookEvery{.tv_sec = 0, .tv_nsec = 50'000'000};
  while (!ending.stop_requested()) {
    if (sigtimedwait(&signals_, nullptr, &kLookEvery) < 0) continue;
    asked_.request_stop();
    // Only this thread now takes the signal, with its default: the process ends.
    pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
    return;
  }
}

}  // namespace muster::cli
