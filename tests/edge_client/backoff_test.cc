#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "edge_client/agent.h"

namespace muster {
namespace {

using std::chrono::milliseconds;

TEST(Backoff, EachWaitLiesBetweenHalfAndWholeAndDoublesUpToTheMost) {
  Backoff backoff(milliseconds(500), milliseconds(60'000), 7);
  milliseconds whole(500);
  for (int i = 0; i < 20; ++i) {
    const auto wait = backoff.next();
    EXPECT_GE(wait, whole / 2) << i;
    EXPECT_LE(wait, whole) << i;
    whole = std::min(whole * 2, milliseconds(60'000));
  }
}

TEST(Backoff, ResetStartsFromTheFirstWaitAgain) {
  Backoff backoff(milliseconds(500), milliseconds(60'000), 7);
  for (int i = 0; i < 10; ++i) (void)backoff.next();
  backoff.reset();
  EXPECT_LE(backoff.next(), milliseconds(500));
}

TEST(Backoff, TM08_AFleetIsSpreadOverTheWholeWindow) {
  std::array<int, 10> bins{};
  for (std::uint64_t device = 0; device < 1000; ++device) {
    Backoff backoff(milliseconds(1000), milliseconds(1000), device);
    const auto wait = backoff.next().count();
    ++bins[static_cast<std::size_t>(std::min<std::int64_t>((wait - 500) / 50, 9))];
  }
  for (const int devices : bins) EXPECT_NEAR(devices, 100, 45);
}

TEST(Backoff, EqualSeedsGiveEqualWaits) {
  Backoff first(milliseconds(500), milliseconds(60'000), 3),
      second(milliseconds(500), milliseconds(60'000), 3);
  std::set<milliseconds> waits;
  for (int i = 0; i < 10; ++i) {
    const auto wait = first.next();
    EXPECT_EQ(wait, second.next());
    waits.insert(wait);
  }
  EXPECT_GT(waits.size(), 5U);
}

}  // namespace
}  // namespace muster
