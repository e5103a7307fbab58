#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace muster::http {

// A fixed number of threads that run jobs in the order in which they were posted. A job that throws
// is a broken invariant of ours: each job catches its own. The queue needs no bound of its own,
// because a connection has at most one job at a time.
//
// `post` from any thread; `stop` once, from a thread that is none of the pool's.
class WorkerPool {
 public:
  explicit WorkerPool(std::size_t threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // After `stop` jobs are dropped unrun.
  void post(std::function<void()> job);
  // Drops what waits, lets what runs finish, joins.
  void stop();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;  // guarded by mutex_
  bool stopping_ = false;                   // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace muster::http
