#pragma once

#include <array>
#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>

#include "server/http/asio.h"
#include "server/http/front_door.h"
#include "server/http/router.h"
#include "server/http/tls_socket.h"
#include "server/http/worker_pool.h"

namespace muster::http {

class Connection;

// What all connections of one front door share. Lives longer than every one of them. Only the
// thread that runs `io` touches it, except for the two pools and the atomics.
struct Door {
  Door(const FrontDoorOptions& options, TlsContext context, std::vector<Route> routes,
       std::function<void(const AccessRecord&)> log_line);

  const FrontDoorLimits limits;
  const std::filesystem::path spool_folder;
  const std::set<std::string> hosts;
  const Router router;
  const TlsServer tls;
  const std::function<void(const AccessRecord&)> log;

  // Shared, because a Responder kept too long posts to it even when the door is gone.
  const std::shared_ptr<asio::io_context> io;
  // Handlers, and bodies and files on their way to and from the disk: two pools, so that handlers
  // that wait cannot hold up a transfer. The sockets' thread touches no disk.
  WorkerPool workers;
  WorkerPool disk;

  // One buffer for all reads: what is read is used or copied before the next read.
  std::array<char, 16 * 1024> scratch{};

  std::size_t most_connections;
  std::unordered_set<std::shared_ptr<Connection>> connections;
  std::map<std::string, std::size_t, std::less<>> per_address;
  std::atomic<std::size_t> open_connections{0};
  bool stopping = false;
  std::function<void()> drained;  // called when the last connection closes while stopping

  // Takes over an accepted descriptor, or closes it when there are too many.
  void take(int descriptor, const asio::ip::tcp::endpoint& peer);
  void refuse(const asio::ip::tcp::endpoint& peer, std::string_view why);
  // Lets go of a connection that has closed itself.
  void forget(const std::shared_ptr<Connection>& connection);
  void write_log(const AccessRecord& record) const;
};

}  // namespace muster::http
