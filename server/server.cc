#include "server/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "certs/authority.h"
#include "certs/tls.h"
#include "server/access_log.h"
#include "server/api.h"
#include "server/coordinator.h"
#include "server/http/front_door.h"
#include "storage/state_files.h"
#include "storage/store.h"
#include "storage/update_files.h"

namespace muster {

// Members in the order they are needed: each uses only those above it, and goes before them.
class Server::Impl {
 public:
  explicit Impl(Options options, ServerConfig config, Authority authority,
                std::unique_ptr<Store> store, StateFiles states)
      : options_(std::move(options)),
        config_(std::move(config)),
        authority_(std::move(authority)),
        store_(std::move(store)),
        states_(std::move(states)),
        updates_(ServerDirectory{options_.root}.updates()),
        access_log_(options_.log),
        coordinator_({*store_, states_, updates_, clock(), options_.log,
                      UpdateLimits{config_.max_examples},
                      static_cast<std::uint64_t>(config_.max_state_bytes), options_.fatal}),
        context_{config_, clock(), authority_, *store_, states_, updates_, coordinator_, 0, 0} {}

  Status start() {
    const ServerDirectory directory{options_.root};
    MUSTER_TRY(const PrivateKey key, PrivateKey::read(directory.server_identity() / "server.key"));
    MUSTER_TRY(const Certificate leaf,
               Certificate::read(directory.server_identity() / "server.pem"));
    MUSTER_TRY_STATUS(coordinator_.start());

    MUSTER_TRY(TlsContext api_tls,
               make_server_tls(leaf, key, authority_.certificate(), &authority_.certificate()));
    std::vector<http::Route> routes = device_routes(context_);
    for (auto* more : {&update_routes, &operator_routes}) {
      for (http::Route& route : (*more)(context_)) routes.push_back(std::move(route));
    }
    api_.emplace(door_options(config_.api_port), std::move(api_tls), std::move(routes),
                 access_log_.for_listener("api"));
    MUSTER_TRY_STATUS(api_->start());
    context_.api_port = api_->port();
    if (!config_.enrolment_open) return {};

    MUSTER_TRY(TlsContext enroll_tls,
               make_server_tls(leaf, key, authority_.certificate(), nullptr));
    enroll_.emplace(door_options(config_.enroll_port), std::move(enroll_tls),
                    enrolment_routes(context_), access_log_.for_listener("enrolment"));
    MUSTER_TRY_STATUS(enroll_->start());
    context_.enroll_port = enroll_->port();
    return {};
  }

  void stop(std::chrono::milliseconds grace) {
    coordinator_.stop();  // answers the held check-ins, so that the doors have nothing to wait for
    if (enroll_) enroll_->stop(grace);
    if (api_) api_->stop(grace);
  }

  const ServerConfig& config() const { return config_; }
  int api_port() const { return api_ ? api_->port() : 0; }
  int enroll_port() const { return enroll_ ? enroll_->port() : 0; }

 private:
  const Clock& clock() const { return options_.clock != nullptr ? *options_.clock : system_clock_; }

  http::FrontDoorOptions door_options(int port) const {
    http::FrontDoorOptions door;
    door.bind_address = config_.bind_address;
    door.port = port;
    door.hosts = config_.hosts;
    door.limits.connections = static_cast<std::size_t>(config_.max_connections);
    // One address, behind which many devices may be, cannot take every place.
    door.limits.connections_per_address = std::max<std::size_t>(1, door.limits.connections * 3 / 4);
    door.worker_threads = static_cast<std::size_t>(config_.worker_threads);
    door.spool_folder = ServerDirectory{options_.root}.spool();
    return door;
  }

  SystemClock system_clock_;
  Options options_;
  ServerConfig config_;
  Authority authority_;
  std::unique_ptr<Store> store_;
  StateFiles states_;
  UpdateFiles updates_;
  AccessLog access_log_;
  Coordinator coordinator_;
  ApiContext context_;
  std::optional<http::FrontDoor> api_;
  std::optional<http::FrontDoor> enroll_;
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() {
  stop(std::chrono::milliseconds(0));
}

Result<std::unique_ptr<Server>> Server::start(Options options) {
  const ServerDirectory directory{options.root};
  MUSTER_TRY(ServerConfig config, read_server_config(directory));
  // The store first: its lock keeps a second server from emptying the first one's spool.
  MUSTER_TRY(std::unique_ptr<Store> store, Store::open(directory.database()));
  MUSTER_TRY(Authority authority, Authority::read(directory.authority()));
  MUSTER_TRY(StateFiles states, StateFiles::open(directory.states()));
  MUSTER_TRY_STATUS(empty_folder(directory.spool()));
  std::error_code
      ignored;  // a restored back-up has none; making a round's folder reports what is wrong
  std::filesystem::create_directory(directory.updates(), ignored);
  auto impl = std::make_unique<Impl>(std::move(options), std::move(config), std::move(authority),
                                     std::move(store), std::move(states));
  MUSTER_TRY_STATUS(impl->start());
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

int Server::api_port() const {
  return impl_->api_port();
}
int Server::enroll_port() const {
  return impl_->enroll_port();
}
const ServerConfig& Server::config() const {
  return impl_->config();
}
void Server::stop(std::chrono::milliseconds grace) {
  impl_->stop(grace);
}

}  // namespace muster
