#pragma once

#include <spdlog/logger.h>

#include <functional>
#include <memory>
#include <string>

#include "server/http/front_door.h"
#include "server/rate_cap.h"

namespace muster {

// Writes one line for each request that failed and each connection that was refused; good requests
// only at debug level. Lines are capped per second, with a count of those left out, so that a flood
// cannot fill the disk. Safe from any thread; outlives the listeners that log to it.
class AccessLog {
 public:
  explicit AccessLog(std::shared_ptr<spdlog::logger> log) : log_(std::move(log)) {}

  std::function<void(const http::AccessRecord&)> for_listener(std::string listener);

 private:
  std::shared_ptr<spdlog::logger> log_;
  RateCap lines_{20};
};

}  // namespace muster
