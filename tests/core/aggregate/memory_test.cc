#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "core/aggregate/aggregator.h"
#include "core/aggregate/encoding/decode.h"
#include "core/base/file.h"
#include "core/tensor/safetensors.h"
#include "tests/support/temporary_folder.h"

namespace muster {
namespace {

constexpr std::int64_t kElements = 8'000'000;
constexpr std::uint64_t kModel = kElements * 4;
// What two workers have of the updates at once, and their scratch.
constexpr std::uint64_t kBuffers = std::uint64_t{8} << 20;
constexpr std::uint64_t kRobustBuffers = std::uint64_t{24} << 20;

std::uint64_t memory_line(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name)) return std::stoull(line.substr(name.size() + 1)) * 1024;
  }
  return 0;
}

// Peak resident memory, global state and result included, of aggregating `count` updates that are
// mapped files (the same one, mapped anew for each).
std::uint64_t peak_of(const AggregationSettings& settings, int count) {
  const testing::TemporaryFolder folder;
  const std::uint64_t before = memory_line("VmRSS:");
  auto layout = *StateLayout::create({{"weight", {kElements}}});
  StateDict global(layout);
  {
    StateDict state(layout);
    std::uint32_t x = 1;
    for (float& value : state.values()) {
      x = x * 1664525 + 1013904223;
      value = static_cast<float>(static_cast<std::int32_t>(x)) * 0x1p-31F;
    }
    EXPECT_TRUE(write_file_durably(folder.path() / "update", write_state(state)));
  }
  AggregationBase base;
  base.global = &global;
  auto aggregator = *make_aggregator(settings, base);
  for (int i = 0; i < count; ++i) {
    auto file = MappedFile::open(folder.path() / "update");
    auto values = open_update(*std::move(file), {}, layout, folder.path());
    EXPECT_TRUE(values) << values.error().message;
    EXPECT_TRUE(aggregator->accumulate({.contributor = "device-" + std::to_string(i),
                                        .values = *std::move(values),
                                        .examples = 10 + i,
                                        .steps = 1,
                                        .initial_loss = {},
                                        .staleness = 0,
                                        .known_finite = true}));
  }
  malloc_trim(0);                                 // what was freed above
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak begins anew
  Workers workers(2);
  const auto outcome = aggregator->finish(&workers);
  EXPECT_TRUE(outcome) << outcome.error().message;
  return memory_line("VmHWM:") - before;
}

TEST(AggregateMemory, MeanStaysUnderTwoAndAHalfModelsAtAnyNumberOfUpdates) {
  for (const int count : {10, 100, 1000}) {
    EXPECT_LT(peak_of(FedAvg{}, count), kModel * 5 / 2 + kBuffers) << count << " updates";
  }
}

TEST(AggregateMemory, MedianStaysUnderFourModels) {
  for (const int count : {10, 100}) {
    EXPECT_LT(peak_of(Median{}, count), kModel * 4 + kRobustBuffers) << count << " updates";
  }
}

TEST(AggregateMemory, RulesOfDistancesStayUnderFourModels) {
  const std::vector<AggregationSettings> rules = {
      Krum{.f = 2}, Bulyan{.f = 2}, GeometricMedian{.max_iterations = 2, .tolerance = 0}};
  for (const AggregationSettings& rule : rules) {
    EXPECT_LT(peak_of(rule, 20), kModel * 4 + kRobustBuffers) << describe(rule);
  }
}

}  // namespace
}  // namespace muster
