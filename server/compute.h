#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "core/base/workers.h"

namespace muster {

// One thread for the server's arithmetic, so that aggregating never holds up a device's call. Work
// runs in the order it came, and may share out its loops among the machine's threads. Owned by the
// coordinator; `stop` drops what has not begun and waits for what has.
class ComputeThread {
 public:
  ComputeThread();
  ~ComputeThread();

  using Work = std::function<void(Workers&, std::stop_token)>;
  void post(Work work);
  void stop();

 private:
  void run(std::stop_token stop);

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<Work> queue_;
  Workers workers_;  // used by the thread alone
  std::jthread thread_;
};

}  // namespace muster
