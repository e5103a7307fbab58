#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

namespace muster {

// A thread with a queue of one: a caller starts a job and waits for it, for a bounded time.
//
// Joined by the destructor, which waits for a job that runs; `stop` of the job says that nobody
// waits for it any more. One caller at a time.
class WorkerThread {
 public:
  WorkerThread();
  // False when the system gave no thread; `start` may not be called then.
  bool ok() const { return thread_.joinable(); }
  ~WorkerThread();
  WorkerThread(const WorkerThread&) = delete;
  WorkerThread& operator=(const WorkerThread&) = delete;

  // The job may not throw. None may be running.
  void start(std::function<void(std::stop_token)> job);

  // Waits until the job is done; false: after `silence` without a call of `sign_of_life`, or when
  // `stop` was asked. The job's own stop token is then asked, and it may go on for a while.
  //   on_sign  called in this thread after signs of life, some of which may be taken together
  bool wait(std::chrono::milliseconds silence, const std::stop_token& stop,
            const std::function<void()>& on_sign = {});
  // Waits for as long as it takes: for jobs that end by themselves.
  void wait();

  // From the job.
  void sign_of_life();

 private:
  void serve(const std::stop_token& ending);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::function<void(std::stop_token)> job_;  // guarded by mutex_, as are those below
  std::stop_source job_stop_;
  bool running_ = false;
  bool sign_ = false;
  std::jthread thread_;
};

}  // namespace muster
