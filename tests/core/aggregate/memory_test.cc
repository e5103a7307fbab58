#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "core/aggregate/aggregator.h"
#include "core/aggregate/encoding/decode.h"
#include "core/aggregate/encoding/encode.h"
#include "core/aggregate/robust/rows.h"
#include "core/base/file.h"
#include "tests/support/temporary_folder.h"

namespace muster {
namespace {

// What two workers have of the updates at once, and their scratch.
constexpr std::uint64_t kBuffers = std::uint64_t{40} << 20;
constexpr std::uint64_t kRobustBuffers = std::uint64_t{24} << 20;
// Side by side up to kRowsKept updates of 64 to 128 KiB each are in memory.
constexpr std::uint64_t kManyRowsBuffers = std::uint64_t{144} << 20;

std::uint64_t memory_line(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name)) return std::stoull(line.substr(name.size() + 1)) * 1024;
  }
  return 0;
}

struct Round {
  AggregationSettings rule;
  int updates = 1;
  std::int64_t elements = 8'000'000;
  UpdateEncoding encoding = {};

  std::uint64_t model() const { return static_cast<std::uint64_t>(elements) * 4; }
};

// A body, made where it leaves nothing behind in memory but the file.
void write_update(const std::filesystem::path& path, const Round& round, const LayoutPtr& layout) {
  StateDict state(layout);
  std::uint32_t x = 1;
  for (float& value : state.values()) {
    x = x * 1664525 + 1013904223;
    value = static_cast<float>(static_cast<std::int32_t>(x)) * 0x1p-31F;
  }
  const auto update = encode_update(round.encoding, StateDict(layout), state, nullptr, 1);
  ASSERT_TRUE(update) << update.error().message;
  ASSERT_TRUE(write_file_durably(path, update->body));
}

// Peak resident memory, global state and result included, of aggregating updates that are mapped
// files (the same one, mapped anew for each, or unpacked anew).
std::uint64_t peak_of(const Round& round) {
  const testing::TemporaryFolder folder;
  malloc_trim(0);
  const std::uint64_t before = memory_line("VmRSS:");
  auto layout = *StateLayout::create({{"weight", {round.elements}}});
  StateDict global(layout);
  write_update(folder.path() / "update", round, layout);
  AggregationBase base;
  base.global = &global;
  base.content = round.encoding.content;
  auto aggregator = *make_aggregator(round.rule, base);
  for (int i = 0; i < round.updates; ++i) {
    auto file = MappedFile::open(folder.path() / "update");
    auto values = open_update(*std::move(file), round.encoding, layout, folder.path());
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

void expect_mean_limit(const Round& round) {
  EXPECT_LT(peak_of(round), round.model() * 5 / 2 + kBuffers)
      << round.updates << " updates, " << describe(round.encoding);
}

void expect_robust_limit(const Round& round, std::uint64_t buffers = kRobustBuffers) {
  EXPECT_LT(peak_of(round), round.model() * 4 + buffers)
      << describe(round.rule) << ", " << round.updates << " updates";
}

TEST(AggregateMemory, MeanStaysUnderTwoAndAHalfModelsAtAnyNumberOfUpdates) {
  for (const int count : {10, 100, 1000}) expect_mean_limit({.rule = FedAvg{}, .updates = count});
}

TEST(AggregateMemory, MeanStaysUnderTwoAndAHalfModelsInEveryEncoding) {
  using Format = UpdateEncoding::Format;
  const auto of = [](Format format, bool compressed) {
    return UpdateEncoding{.format = format,
                          .content = UpdateContent::kDelta,
                          .fraction = 0.1,
                          .compressed = compressed};
  };
  for (const UpdateEncoding& encoding :
       {of(Format::kFloat16, false), of(Format::kInt8, false), of(Format::kTopK, false),
        of(Format::kTopK, true), of(Format::kInt8, true)}) {
    expect_mean_limit(
        {.rule = FedAvg{}, .updates = 100, .elements = 4'000'000, .encoding = encoding});
  }
}

TEST(AggregateMemory, MedianStaysUnderFourModels) {
  for (const int count : {10, 100}) expect_robust_limit({.rule = Median{}, .updates = count});
}

TEST(AggregateMemory, RulesOfDistancesStayUnderFourModels) {
  const std::vector<AggregationSettings> rules = {
      Krum{.f = 2}, Bulyan{.f = 2}, GeometricMedian{.max_iterations = 2, .tolerance = 0}};
  for (const AggregationSettings& rule : rules) {
    expect_robust_limit({.rule = rule, .updates = 20});
  }
}

// On both sides of where rows are no longer kept in place.
TEST(AggregateMemory, RobustRulesStayUnderFourModelsWithManyUpdates) {
  const std::vector<AggregationSettings> rules = {
      Median{}, TrimmedMean{.beta = 0.1}, Krum{.f = 2},
      GeometricMedian{.max_iterations = 2, .tolerance = 0}};
  for (const AggregationSettings& rule : rules) {
    for (const int count : {static_cast<int>(kRowsKept), 500, 1000}) {
      expect_robust_limit({.rule = rule, .updates = count, .elements = 100'000}, kManyRowsBuffers);
    }
  }
}

}  // namespace
}  // namespace muster
