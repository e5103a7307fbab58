#include "server/http/door.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <exception>
#include <optional>
#include <utility>

#include "server/http/connection.h"
#include "server/http/head_parser.h"

namespace muster::http {
namespace {

constexpr std::size_t kDiskThreads = 2;

std::set<std::string> lower_case(const std::vector<std::string>& hosts) {
  std::set<std::string> lower;
  for (const std::string& host : hosts) lower.insert(to_lower(host));
  return lower;
}

std::string address_of(const asio::ip::tcp::endpoint& peer) {
  const auto address = peer.address();
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
  }
  return address.to_string();
}

}  // namespace

Door::Door(const FrontDoorOptions& options, TlsContext context, std::vector<Route> routes,
           std::function<void(const AccessRecord&)> log_line)
    : limits(options.limits),
      spool_folder(options.spool_folder),
      hosts(lower_case(options.hosts)),
      router(std::move(routes)),
      tls(std::move(context)),
      log(std::move(log_line)),
      io(std::make_shared<asio::io_context>(1)),
      workers(options.worker_threads),
      disk(kDiskThreads),
      most_connections(options.limits.connections) {}

void Door::take(int descriptor, const asio::ip::tcp::endpoint& peer) {
  const std::string address = address_of(peer);
  const auto from_there = per_address.find(address);
  const char* problem = nullptr;
  if (stopping) problem = "stopping";
  if (connections.size() >= most_connections) problem = "too_many_connections";
  if (from_there != per_address.end() && from_there->second >= limits.connections_per_address) {
    problem = "too_many_connections_from_address";
  }
  if (problem != nullptr) {
    ::close(descriptor);
    return refuse(peer, problem);
  }
  const int yes = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  std::optional<asio::ip::tcp::socket> socket;
  try {
    socket.emplace(*io, peer.protocol(), descriptor);
    auto connection = std::make_shared<Connection>(*this, *std::move(socket), address, peer.port());
    std::size_t& count = per_address[address];
    connections.insert(connection);
    ++count;
    open_connections = connections.size();
    connection->start();
  } catch (const std::exception&) {  // no memory: this peer goes, the listener stays
    if (!socket) ::close(descriptor);
    refuse(peer, "out_of_memory");
  }
}

void Door::refuse(const asio::ip::tcp::endpoint& peer, std::string_view why) {
  AccessRecord record;
  record.peer = address_of(peer) + ":" + std::to_string(peer.port());
  record.problem = why;
  write_log(record);
}

void Door::forget(const std::shared_ptr<Connection>& connection) {
  if (connections.erase(connection) == 0) return;
  const auto count = per_address.find(connection->address());
  if (count != per_address.end() && --count->second == 0) per_address.erase(count);
  open_connections = connections.size();
  if (stopping && connections.empty() && drained) drained();
}

void Door::write_log(const AccessRecord& record) const {
  if (!log) return;
  try {
    log(record);
  } catch (const std::exception&) {  // a log that fails must not stop the sockets
  }
}

}  // namespace muster::http
