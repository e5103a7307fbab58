#pragma once

#include <chrono>
#include <cstdint>

namespace muster::http {

// Whether a peer moves a body fast enough: at least `bytes_per_s`, averaged over each window of the
// time in which we waited for it. Since every window must reach the rate, n bytes take at most one
// window plus n / bytes_per_s, however the peer spreads them: that is the total deadline. Time that
// our own disk took is not held against the peer (`pause`, `resume`).
class RateMeter {
 public:
  using Time = std::chrono::steady_clock::time_point;

  RateMeter(std::uint64_t bytes_per_s, std::chrono::milliseconds window)
      : window_(window), wanted_(bytes_per_s * static_cast<std::uint64_t>(window.count()) / 1000) {}

  void start(Time now) {
    end_ = now + window_;
    bytes_ = 0;
  }
  void add(std::uint64_t bytes) { bytes_ += bytes; }
  void pause(Time now) { left_ = end_ - now; }
  void resume(Time now) { end_ = now + left_; }

  // When to call `next_window`.
  Time window_end() const { return end_; }
  // Ends a window and begins the next. False when the one that ended was too slow.
  bool next_window(Time now) {
    const bool fast_enough = bytes_ >= wanted_;
    start(now);
    return fast_enough;
  }

 private:
  std::chrono::milliseconds window_;
  std::uint64_t wanted_;
  std::uint64_t bytes_ = 0;
  Time end_{};
  Time::duration left_{};
};

}  // namespace muster::http
