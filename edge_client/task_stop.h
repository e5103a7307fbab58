#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace muster {

// Waits for `time` or until `stop` is asked; false when it was asked.
inline bool wait_unless_stopped(std::stop_token stop, std::chrono::milliseconds time) {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock lock(mutex);
  changed.wait_for(lock, stop, time, [] { return false; });
  return !stop.stop_requested();
}

// A stop token for one task: asked when the outer one is, and when the task's deadline passes.
// Lives as long as the task runs.
class TaskStop {
 public:
  TaskStop(std::stop_token outer, std::chrono::steady_clock::time_point deadline)
      : on_outer_(std::move(outer), [this] { source_.request_stop(); }),
        timer_([this, deadline](std::stop_token done) { wait(done, deadline); }) {}

  std::stop_token token() const { return source_.get_token(); }
  bool deadline_passed() const { return deadline_passed_.load(); }

 private:
  void wait(const std::stop_token& done, std::chrono::steady_clock::time_point deadline) {
    std::mutex mutex;
    std::condition_variable_any changed;
    std::unique_lock lock(mutex);
    changed.wait_until(lock, done, deadline, [] { return false; });
    if (done.stop_requested()) return;
    deadline_passed_.store(true);
    source_.request_stop();
  }

  std::stop_source source_;
  std::atomic<bool> deadline_passed_{false};
  std::stop_callback<std::function<void()>> on_outer_;
  std::jthread timer_;
};

}  // namespace muster
