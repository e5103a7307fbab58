#pragma once

#include <spdlog/logger.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "server/http/front_door.h"

namespace muster {

// Writes one line for each request that failed and each connection that was refused; good requests
// only at debug level. Refused handshakes are capped per second, with a count of those left out, so
// that a flood cannot fill the disk. Safe from any thread.
class AccessLog {
 public:
  explicit AccessLog(std::shared_ptr<spdlog::logger> log) : log_(std::move(log)) {}

  std::function<void(const http::AccessRecord&)> for_listener(std::string listener);

 private:
  // How many lines of this second were left out before this one; nullopt when this one is to be
  // left out.
  std::optional<std::uint64_t> admit_line();

  std::shared_ptr<spdlog::logger> log_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point second_{};
  std::uint64_t lines_ = 0;
  std::uint64_t left_out_ = 0;
};

}  // namespace muster
