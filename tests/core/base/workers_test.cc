#include "core/base/workers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <vector>

namespace muster {
namespace {

class WorkersOf : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Counts, WorkersOf, testing::Values(1, 2, 3, 8));

TEST_P(WorkersOf, TakesEveryPartExactlyOnce) {
  Workers workers(GetParam());
  EXPECT_EQ(workers.count(), GetParam());
  for (const std::int64_t n : {0, 1, 7, 100}) {
    for (const std::int64_t grain : {1, 3, 100, 1000}) {
      std::vector<std::atomic<int>> taken(static_cast<std::size_t>(n));
      workers.for_each(n, grain, [&](std::int64_t begin, std::int64_t end, int worker) {
        EXPECT_EQ(begin % grain, 0);
        EXPECT_EQ(end, std::min(begin + grain, n));
        EXPECT_TRUE(worker >= 0 && worker < GetParam());
        for (std::int64_t i = begin; i < end; ++i) ++taken[static_cast<std::size_t>(i)];
      });
      for (const std::atomic<int>& count : taken) EXPECT_EQ(count, 1);
    }
  }
}

TEST_P(WorkersOf, HasFinishedEveryPartWhenItReturns) {
  Workers workers(GetParam());
  // Many short loops one after another: a thread that is late for one must not slip into the next.
  for (int loop = 0; loop < 5000; ++loop) {
    std::atomic<int> sum{0};
    workers.for_each(
        4, 1, [&](std::int64_t begin, std::int64_t, int) { sum += static_cast<int>(begin) + 1; });
    ASSERT_EQ(sum, 10) << "loop " << loop;
  }
}

TEST(Workers, RunTheirPartsAtTheSameTime) {
  Workers workers(2);
  std::atomic<int> inside{0};
  // Each part waits for the other: one thread alone would never come out.
  workers.for_each(2, 1, [&](std::int64_t, std::int64_t, int) {
    ++inside;
    while (inside < 2) std::this_thread::yield();
  });
  EXPECT_EQ(inside, 2);
}

TEST(Workers, NeverTakePartsWhileAnotherOfTheSameNumberDoes) {
  Workers workers(3);
  std::vector<std::atomic<int>> busy(3);
  workers.for_each(1000, 1, [&](std::int64_t, std::int64_t, int worker) {
    EXPECT_EQ(busy[static_cast<std::size_t>(worker)]++, 0);
    --busy[static_cast<std::size_t>(worker)];
  });
}

TEST(Workers, WakeUpAfterTheyFellAsleep) {
  Workers workers(2);
  for (int loop = 0; loop < 3; ++loop) {
    std::atomic<int> count{0};
    workers.for_each(10, 1, [&](std::int64_t, std::int64_t, int) { ++count; });
    EXPECT_EQ(count, 10);
    // Longer than they look out for the next loop.
    std::atomic<std::int64_t> spin{0};
    while (spin < 3'000'000) ++spin;
  }
}

}  // namespace
}  // namespace muster
