#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

namespace muster {

// At most so many records a second of a kind that strangers can cause, so that a flood fills
// neither log nor disk. Safe from any thread.
class RateCap {
 public:
  explicit RateCap(std::uint64_t per_second) : per_second_(per_second) {}

  // How many were left out since the last one that was admitted; nullopt when this one is to be
  // left out.
  std::optional<std::uint64_t> admit() {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (now - second_ >= std::chrono::seconds(1)) {
      second_ = now;
      count_ = 0;
    }
    if (++count_ > per_second_) {
      ++left_out_;
      return std::nullopt;
    }
    return std::exchange(left_out_, 0);
  }

 private:
  const std::uint64_t per_second_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point second_{};
  std::uint64_t count_ = 0;
  std::uint64_t left_out_ = 0;
};

}  // namespace muster
