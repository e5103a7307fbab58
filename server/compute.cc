#include "server/compute.h"

#include <algorithm>

namespace muster {

ComputeThread::ComputeThread()
    : workers_(std::max(1, static_cast<int>(std::thread::hardware_concurrency()))),
      thread_([this](std::stop_token stop) { run(stop); }) {}

ComputeThread::~ComputeThread() {
  stop();
}

void ComputeThread::post(Work work) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  wake_.notify_one();
}

void ComputeThread::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

void ComputeThread::run(std::stop_token stop) {
  while (true) {
    Work work;
    {
      std::unique_lock lock(mutex_);
      if (!wake_.wait(lock, stop, [this] { return !queue_.empty(); }) || stop.stop_requested())
        return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work(workers_, stop);
  }
}

}  // namespace muster
