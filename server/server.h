#pragma once

#include <spdlog/logger.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>

#include "core/base/error.h"
#include "server/clock.h"
#include "server/directory.h"

namespace muster {

// One running server on one directory: store, state files, coordinator and the two listeners, put
// together. `muster serve` is this and a signal handler; tests run it in-process on ports 0.
//
// Order of calls: `start` (a factory), then the ports may be asked, `stop` once (or the
// destructor).
class Server {
 public:
  struct Options {
    std::filesystem::path root;
    std::shared_ptr<spdlog::logger> log;
    const Clock* clock = nullptr;  // null: the system's
    std::function<void(const Error&)> fatal =
        {};  // the disk failed a flush: the process has to end
  };

  // Checks the directory, opens the store, brings back the running jobs and listens.
  // Errors: kNotFound (no server directory), kFailedPrecondition (another server runs on it, key
  // files open to others), kUnavailable (port taken), kDataLoss (damaged database).
  static Result<std::unique_ptr<Server>> start(Options options);
  ~Server();

  int api_port() const;
  int enroll_port() const;  // 0: closed
  const ServerConfig& config() const;

  // No new connections, held check-ins answered, running requests finished within `grace`.
  void stop(std::chrono::milliseconds grace);

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
