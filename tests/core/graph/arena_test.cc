#include "core/graph/arena.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/base/random.h"

namespace muster {
namespace {

struct Use {
  std::int64_t size;
  std::int64_t first;
  std::int64_t last;
};

void expect_apart(const std::vector<Use>& uses, const SharedPlan& plan, std::int64_t total) {
  for (std::size_t a = 0; a < uses.size(); ++a) {
    ASSERT_LE(plan.offset(a) + uses[a].size, total);
    for (std::size_t b = 0; b < a; ++b) {
      if (uses[a].last < uses[b].first || uses[b].last < uses[a].first) continue;
      ASSERT_TRUE(plan.offset(a) + uses[a].size <= plan.offset(b) ||
                  plan.offset(b) + uses[b].size <= plan.offset(a))
          << a << " and " << b << " are used at the same time";
    }
  }
}

TEST(SharedPlan, KeepsBuffersApartThatAreUsedAtTheSameTime) {
  Random random(5);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<Use> uses;
    SharedPlan plan;
    for (std::uint64_t i = 0; i < 1 + random.below(40); ++i) {
      const auto first = static_cast<std::int64_t>(random.below(20));
      uses.push_back({static_cast<std::int64_t>(16 * random.below(10)), first,
                      first + static_cast<std::int64_t>(random.below(5))});
      plan.add(uses.back().size, uses.back().first, uses.back().last);
    }
    const std::int64_t total = plan.place();
    expect_apart(uses, plan, total);
  }
}

TEST(SharedPlan, LetsAChainShareTheMemoryOfTwo) {
  SharedPlan plan;
  for (std::int64_t step = 0; step < 100; ++step) plan.add(64, step, step + 1);
  EXPECT_EQ(plan.place(), 128);
}

TEST(SharedPlan, PlacesVeryManyBuffersWithoutSharing) {
  std::vector<Use> uses(5000, Use{16, 1, 2});
  SharedPlan plan;
  for (const Use& use : uses) plan.add(use.size, use.first, use.last);
  EXPECT_EQ(plan.place(), 80'000);
  EXPECT_EQ(plan.offset(4999), 79'984);
}

TEST(SharedPlan, StaysInRangeWithSizesThatLeaveIt) {
  SharedPlan plan;
  for (int i = 0; i < 10; ++i) plan.add(ArenaPlan::kMost - 16, 0, 9);
  EXPECT_EQ(plan.place(), ArenaPlan::kMost);
}

}  // namespace
}  // namespace muster
