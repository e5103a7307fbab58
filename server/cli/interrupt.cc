#include "server/cli/interrupt.h"

#include <csignal>
#include <ctime>

namespace muster::cli {
namespace {

// Ends the process by the signal, which all threads have blocked but then this one.
void end_process(int signal, const sigset_t& signals) {
  std::signal(signal, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  std::raise(signal);
}

}  // namespace

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
  constexpr timespec kNow{};
  while (sigtimedwait(&signals_, nullptr, &kNow) > 0) {
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void Interrupt::watch(const std::stop_token& ending) {
  constexpr timespec kLookEvery{.tv_sec = 0, .tv_nsec = 50'000'000};
  while (!ending.stop_requested()) {
    const int signal = sigtimedwait(&signals_, nullptr, &kLookEvery);
    if (signal < 0) continue;
    if (asked_.stop_requested()) end_process(signal, signals_);
    asked_.request_stop();
  }
}

}  // namespace muster::cli
