#include "core/strategy/context/worker_thread.h"

#include <system_error>
#include <utility>

namespace muster {

WorkerThread::WorkerThread() {
  try {
    thread_ = std::jthread([this](const std::stop_token& ending) { serve(ending); });
  } catch (const std::system_error&) {
    // The system gives no more threads: ok() says so.
  }
}

WorkerThread::~WorkerThread() {
  const std::lock_guard lock(mutex_);
  job_stop_.request_stop();
}

void WorkerThread::start(std::function<void(std::stop_token)> job) {
  {
    const std::lock_guard lock(mutex_);
    job_ = std::move(job);
    job_stop_ = std::stop_source();
    running_ = true;
    sign_ = false;
  }
  changed_.notify_all();
}

bool WorkerThread::wait(std::chrono::milliseconds silence, const std::stop_token& stop,
                        const std::function<void()>& on_sign) {
  std::unique_lock lock(mutex_);
  while (running_) {
    if (!changed_.wait_for(lock, stop, silence, [this] { return !running_ || sign_; })) {
      job_stop_.request_stop();
      return false;
    }
    if (!sign_) continue;
    sign_ = false;
    if (!on_sign) continue;
    lock.unlock();
    on_sign();
    lock.lock();
  }
  return true;
}

void WorkerThread::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !running_; });
}

void WorkerThread::sign_of_life() {
  {
    const std::lock_guard lock(mutex_);
    sign_ = true;
  }
  changed_.notify_all();
}

void WorkerThread::serve(const std::stop_token& ending) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, ending, [this] { return job_ != nullptr; })) {
    const std::function<void(std::stop_token)> job = std::exchange(job_, nullptr);
    const std::stop_token stop = job_stop_.get_token();
    lock.unlock();
    job(stop);
    lock.lock();
    running_ = false;
    changed_.notify_all();
  }
}

}  // namespace muster
