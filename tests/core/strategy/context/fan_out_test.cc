#include "core/strategy/context/fan_out.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>

namespace muster {
namespace {

Error numbered(std::int64_t worker) {
  return {ErrorCode::kUnavailable, "worker " + std::to_string(worker)};
}

TEST(FanOut, RunsAllAtTheSameTimeAndKeepsTheOrder) {
  FanOut fan_out = *FanOut::create(5);
  const std::vector<std::int64_t> workers{7, 3, 9, 1, 4};
  std::vector<std::int64_t> seen(5);
  std::barrier all(5);
  for (int turn = 0; turn < 20; ++turn) {
    const auto results = fan_out.run(workers, [&](std::size_t slot, std::int64_t worker) {
      all.arrive_and_wait();
      seen[slot] = worker;
      return Status{};
    });
    EXPECT_EQ(results.size(), 5U);
    EXPECT_TRUE(first_error(results));
    EXPECT_EQ(seen, workers);
  }
}

TEST(FanOut, GivesTheFirstErrorInOrderOfTheWorkers) {
  FanOut fan_out = *FanOut::create(4);
  const std::vector<std::int64_t> workers{2, 0, 5};
  const auto results = fan_out.run(workers, [](std::size_t slot, std::int64_t worker) -> Status {
    if (slot == 0) return {};
    return numbered(worker);
  });
  EXPECT_EQ(first_error(results).error().message, "worker 0");
  EXPECT_TRUE(first_error(fan_out.run({}, [](std::size_t, std::int64_t) { return Status{}; })));
}

}  // namespace
}  // namespace muster
