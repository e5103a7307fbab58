#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <vector>

namespace muster {

// For how long places were at work: calls of one place that overlap (one waits for the other) count
// once. Any thread may call.
class BusyTime {
 public:
  using Clock = std::chrono::steady_clock;

  explicit BusyTime(std::size_t places) : places_(places) {}

  void begin(std::size_t place);
  void end(std::size_t place);

  // Of all places together. No call is going on.
  Clock::duration total() const { return total_; }

 private:
  struct Place {
    int calls = 0;
    Clock::time_point since;
  };
  std::mutex mutex_;
  std::vector<Place> places_;  // guarded by mutex_
  Clock::duration total_{0};   // guarded by mutex_
};

}  // namespace muster
