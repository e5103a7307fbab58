#pragma once

#include <chrono>
#include <cstdint>

namespace muster {

// Where the server gets the time from; tests bring their own. Safe to call from any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  // Never goes back; for deadlines. Its zero means nothing.
  virtual std::chrono::milliseconds steady() const = 0;
  // Unix time; for records and certificates.
  virtual std::int64_t unix_ms() const = 0;
};

class SystemClock : public Clock {
 public:
  std::chrono::milliseconds steady() const override {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now().time_since_epoch());
  }
  std::int64_t unix_ms() const override {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace muster
