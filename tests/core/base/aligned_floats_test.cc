#include "core/base/aligned_floats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

namespace muster {
namespace {

TEST(AlignedFloats, BeginOnACacheLineAndHoldAllTheirFloats) {
  for (const std::int64_t count : {0, 1, 15, 16, 1000, 32'700, 32'768, 3'000'000}) {
    const AlignedFloats floats = make_aligned_floats(count);
    ASSERT_NE(floats, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(floats.get()) % 64, 0U) << count;
    std::fill_n(floats.get(), count, 3.0F);
    EXPECT_EQ(std::count(floats.get(), floats.get() + count, 3.0F), count);
  }
}

TEST(AlignedFloats, AreNullWhereThereIsNoMemory) {
  EXPECT_EQ(make_aligned_floats(std::int64_t{1} << 58), nullptr);
}

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t pages = 0;
  file >> pages >> pages;
  return pages * 4096;
}

TEST(AlignedFloats, GoBackToTheSystemHoweverOftenTheyAreTaken) {
  const std::int64_t before = resident_bytes();
  std::vector<std::unique_ptr<std::string>> between;  // pins the heap's end
  for (int round = 0; round < 200; ++round) {
    const AlignedFloats floats = make_aligned_floats(500'000 + round);
    std::fill_n(floats.get(), 500'000, 1.0F);
    between.push_back(std::make_unique<std::string>(100, 'x'));
  }
  EXPECT_LT(resident_bytes() - before, 20'000'000);
}

}  // namespace
}  // namespace muster
