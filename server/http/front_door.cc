#include "server/http/front_door.h"

#include <sys/resource.h>

#include <algorithm>
#include <exception>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "server/http/connection.h"
#include "server/http/door.h"
#include "server/http/listener.h"

namespace muster::http {
namespace {

// Descriptors that stay for databases, bodies and state files.
constexpr std::size_t kReservedDescriptors = 64;

std::size_t descriptors_for_connections() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  const auto all = static_cast<std::size_t>(limit.rlim_cur);
  return all > 2 * kReservedDescriptors ? all - kReservedDescriptors : all / 2;
}

}  // namespace

class FrontDoor::Impl {
 public:
  Impl(FrontDoorOptions options, TlsContext tls, std::vector<Route> routes,
       std::function<void(const AccessRecord&)> log)
      : options_(std::move(options)),
        door_(options_, std::move(tls), std::move(routes), std::move(log)),
        guard_(door_.io->get_executor()) {}

  ~Impl() { stop(std::chrono::milliseconds(0)); }

  Status start() {
    MUSTER_TRY(listener_, Listener::open(*door_.io, options_.bind_address, options_.port));
    door_.most_connections = std::min(door_.most_connections, descriptors_for_connections());
    thread_ = std::thread([this] { run(); });
    asio::post(*door_.io, [this] {
      listener_->start({[this](int descriptor, const auto& peer) { door_.take(descriptor, peer); },
                        [this](const auto& peer) { door_.refuse(peer, "no_descriptors"); }});
    });
    return {};
  }

  int port() const { return listener_ != nullptr ? listener_->port() : 0; }
  std::size_t open_connections() const { return door_.open_connections; }

  void stop(std::chrono::milliseconds grace) {
    const std::lock_guard lock(stop_mutex_);
    if (std::exchange(stopped_, true)) return;
    if (thread_.joinable()) {
      auto drained = drained_.get_future();
      asio::post(*door_.io, [this] { begin_stop(); });
      drained.wait_for(grace);
      asio::post(*door_.io, [this] { close_all(); });
      drained.wait();
    }
    door_.workers.stop();
    door_.disk.stop();
    guard_.reset();
    if (thread_.joinable()) thread_.join();
  }

 private:
  void run() {
    for (;;) {
      try {
        door_.io->run();
        return;
      } catch (const std::exception&) {
        // A connection guards itself; what comes here is the accept path out of memory. Go on.
      }
    }
  }

  void begin_stop() {
    door_.stopping = true;
    listener_->close();
    door_.drained = [this] {
      if (!std::exchange(is_drained_, true)) drained_.set_value();
    };
    for_each([](Connection& connection) { connection.close_if_idle(); });
    if (door_.connections.empty()) door_.drained();
  }

  void close_all() {
    for_each([](Connection& connection) { connection.close("the server stopped"); });
  }

  // Over a copy: closing takes a connection out of the set.
  template <typename Function>
  void for_each(Function function) {
    const std::vector<std::shared_ptr<Connection>> all(door_.connections.begin(),
                                                       door_.connections.end());
    for (const auto& connection : all) function(*connection);
  }

  const FrontDoorOptions options_;
  Door door_;
  asio::executor_work_guard<asio::io_context::executor_type> guard_;
  std::unique_ptr<Listener> listener_;
  std::thread thread_;
  std::promise<void> drained_;
  bool is_drained_ = false;  // of the io thread
  std::mutex stop_mutex_;
  bool stopped_ = false;  // guarded by stop_mutex_
};

FrontDoor::FrontDoor(FrontDoorOptions options, TlsContext tls, std::vector<Route> routes,
                     std::function<void(const AccessRecord&)> log)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(tls), std::move(routes),
                                   std::move(log))) {}

FrontDoor::~FrontDoor() = default;

Status FrontDoor::start() {
  return impl_->start();
}
int FrontDoor::port() const {
  return impl_->port();
}
void FrontDoor::stop(std::chrono::milliseconds grace) {
  impl_->stop(grace);
}
std::size_t FrontDoor::open_connections() const {
  return impl_->open_connections();
}

}  // namespace muster::http
