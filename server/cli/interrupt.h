#pragma once

#include <csignal>
#include <stop_token>
#include <thread>

namespace muster::cli {

// Turns the first Ctrl-C (SIGINT, SIGTERM) into a request to stop, so that a command can end
// cleanly; the second one ends the process at once, by the signal's default action. One that is
// still pending when this goes is dropped: the command has ended, and its exit code stands. Make it
// before other threads start: they inherit that the signals are blocked. One at a time in a
// program.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Any thread may ask it.
  std::stop_token token() const { return asked_.get_token(); }

 private:
  void watch(const std::stop_token& ending);

  sigset_t signals_;
  sigset_t before_;
  std::stop_source asked_;
  std::jthread watcher_;
};

}  // namespace muster::cli
