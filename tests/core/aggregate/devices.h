#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/aggregate/aggregator.h"
#include "core/base/random.h"
#include "core/tensor/json_state.h"

// Devices with updates, and short ways to aggregate them, for the tests of core/aggregate.
namespace muster::aggregating {

struct Device {
  std::string name;
  StateDict state;  // what travels: a state or a change
  std::int64_t examples = 1;
  std::int64_t steps = 1;
  double loss = 1;
  std::int64_t staleness = 0;
};

// A view of the device's values, which are checked by `accumulate`.
inline Contribution contribution(const Device& device) {
  return {.contributor = device.name,
          .values = view_of(device.state),
          .examples = device.examples,
          .steps = device.steps,
          .initial_loss = device.loss,
          .staleness = device.staleness};
}

inline AggregationSettings settings_of(const Json& json) {
  auto settings = aggregation_from_json(json, "aggregation");
  if (!settings) throw std::runtime_error(settings.error().message);
  return *std::move(settings);
}

// +- mantissa * 2^exponent with an exponent from `low` to `high`; now and then a zero.
inline float random_float(Random& random, int low, int high) {
  if (random.below(16) == 0) return random.below(2) == 0 ? 0.0F : -0.0F;
  const int exponent = low + static_cast<int>(random.below(static_cast<std::uint64_t>(high - low)));
  const auto magnitude = static_cast<float>(1 + random.uniform());
  return std::ldexp(random.below(2) == 0 ? magnitude : -magnitude, exponent);
}

inline StateDict random_state(const LayoutPtr& layout, Random& random, int low, int high) {
  StateDict state(layout);
  for (float& value : state.values()) value = random_float(random, low, high);
  return state;
}

// Numbers of a JSON state: doubles like these, with all their bits.
inline StateDict random_json_state(const LayoutPtr& layout, Random& random, int low, int high) {
  StateDict state(layout);
  float* to = state.values().data();
  for (std::int64_t i = 0; i < layout->num_elements() / kNumberWords; ++i) {
    const double number = random_float(random, low, high) * (1 + random.uniform());
    for (const float word : words_of(number)) *to++ = word;
  }
  return state;
}

inline std::vector<std::uint32_t> bits_of(std::span<const float> values) {
  std::vector<std::uint32_t> bits;
  bits.reserve(values.size());
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

inline bool same_bits(const Outcome& a, const Outcome& b) {
  if (a.rule_state.has_value() != b.rule_state.has_value()) return false;
  if (a.rule_state && !(*a.rule_state == *b.rule_state)) return false;
  return a.global == b.global && a.report == b.report;
}

inline std::unique_ptr<Aggregator> aggregator(const AggregationSettings& settings,
                                              const AggregationBase& base) {
  auto made = make_aggregator(settings, base);
  if (!made) throw std::runtime_error(made.error().message);
  return *std::move(made);
}

// Everybody, in this order; the first error ends it.
inline Result<Outcome> aggregate(const AggregationSettings& settings, const AggregationBase& base,
                                 const std::vector<Device>& devices, Workers* workers = nullptr) {
  MUSTER_TRY(const auto made, make_aggregator(settings, base));
  for (const Device& device : devices) MUSTER_TRY_STATUS(made->accumulate(contribution(device)));
  return made->finish(workers);
}

inline Bytes saved_bytes(Aggregator& aggregator) {
  Bytes bytes;
  const auto status = aggregator.save([&](ByteView piece) -> Status {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
    return {};
  });
  EXPECT_TRUE(status.has_value()) << status.error().message;
  return bytes;
}

}  // namespace muster::aggregating
