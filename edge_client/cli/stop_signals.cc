#include "edge_client/cli/stop_signals.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "core/base/invariant.h"

namespace muster::cli {

StopSignals::StopSignals(std::stop_source stop) : stop_(std::move(stop)) {
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGTERM);
  sigaddset(&wanted, SIGINT);
  pthread_sigmask(SIG_BLOCK, &wanted, &before_);
  signals_ = signalfd(-1, &wanted, SFD_CLOEXEC);
  done_ = eventfd(0, EFD_CLOEXEC);
  if (signals_ < 0 || done_ < 0) invariant_broken("no descriptor left for signals");
  thread_ = std::thread([this] { wait(); });
}

StopSignals::~StopSignals() {
  const std::uint64_t one = 1;
  (void)!::write(done_, &one, sizeof(one));
  thread_.join();
  ::close(signals_);
  ::close(done_);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void StopSignals::wait() {
  while (true) {
    std::array<pollfd, 2> polled{{{signals_, POLLIN, 0}, {done_, POLLIN, 0}}};
    if (poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
    if (polled[1].revents != 0) return;
    if (polled[0].revents == 0) continue;
    signalfd_siginfo info{};
    if (::read(signals_, &info, sizeof(info)) != sizeof(info)) continue;
    if (stop_.stop_requested()) ::_exit(130);
    stop_.request_stop();
  }
}

}  // namespace muster::cli
