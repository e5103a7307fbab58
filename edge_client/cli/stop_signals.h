#pragma once

#include <csignal>
#include <stop_token>
#include <thread>

namespace muster::cli {

// Turns SIGTERM and SIGINT into a request to stop, while the object lives; a second one ends the
// process at once (exit code 130). A thread of its own reads them (signalfd), so that nothing runs
// in a signal handler. Make it before other threads: they inherit that the two are blocked.
class StopSignals {
 public:
  explicit StopSignals(std::stop_source stop);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  void wait();

  std::stop_source stop_;
  sigset_t before_{};
  int signals_ = -1;
  int done_ = -1;
  std::thread thread_;
};

}  // namespace muster::cli
