#include "core/strategy/context/worker_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>

namespace muster {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kLong{60'000};

TEST(WorkerThread, RunsOneJobAfterAnother) {
  WorkerThread thread;
  ASSERT_TRUE(thread.ok());
  int sum = 0;
  for (int i = 1; i <= 100; ++i) {
    thread.start([&sum, i](const std::stop_token&) { sum += i; });
    ASSERT_TRUE(thread.wait(kLong, {}));
  }
  EXPECT_EQ(sum, 5050);
}

TEST(WorkerThread, SilenceEndsTheWaitAndAsksTheJobToStop) {
  std::atomic<bool> asked{false};
  {
    WorkerThread thread;
    std::latch stopped(1);
    thread.start([&](const std::stop_token& stop) {
      const std::stop_callback callback(stop, [&] { stopped.count_down(); });
      stopped.wait();
      asked = true;
    });
    EXPECT_FALSE(thread.wait(milliseconds(20), {}));
  }
  EXPECT_TRUE(asked);
}

TEST(WorkerThread, SignsOfLifeKeepTheWaitAndAreToldInTheCallersThread) {
  WorkerThread thread;
  const auto caller = std::this_thread::get_id();
  int told = 0;
  std::latch heard(3);
  thread.start([&](const std::stop_token&) {
    // The wait would end long before the third.
    while (!heard.try_wait()) {
      thread.sign_of_life();
      std::this_thread::yield();
    }
  });
  EXPECT_TRUE(thread.wait(kLong, {}, [&] {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    if (++told <= 3) heard.count_down();
  }));
  EXPECT_GE(told, 3);
}

TEST(WorkerThread, AStopEndsTheWait) {
  WorkerThread thread;
  std::stop_source stop;
  std::latch release(1);
  thread.start([&](const std::stop_token&) { release.wait(); });
  stop.request_stop();
  EXPECT_FALSE(thread.wait(kLong, stop.get_token()));
  release.count_down();
}

}  // namespace
}  // namespace muster
