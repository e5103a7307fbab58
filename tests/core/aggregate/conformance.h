#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <ostream>

#include "tests/core/aggregate/devices.h"

// The one suite that every rule of settings.h has to pass, over states and over deltas.
namespace muster::aggregating {

struct RuleCase {
  Json settings;
  UpdateContent content = UpdateContent::kState;
  // Magnitudes in the tests of order: 2^-100 to 2^100, less where a rule keeps squares as float32.
  int widest_exponent = 100;
  bool weighs_by_examples = true;
  // Its states are JSON: the tensor "numbers", whose values are words of doubles.
  bool of_json = false;
};

inline std::ostream& operator<<(std::ostream& out, const RuleCase& rule) {
  return out << rule.settings;
}

inline std::string name_of(const ::testing::TestParamInfo<RuleCase>& test) {
  const RuleCase& rule = test.param;
  std::string name = rule.settings.at("method").get<std::string>();
  if (rule.settings.contains("nesterov")) name += "Nesterov";
  if (rule.settings.contains("tau_eff")) name += "Steps";
  std::erase(name, '-');
  return name + (rule.content == UpdateContent::kState ? "OfStates" : "OfDeltas");
}

// Of a rule that takes states only, or deltas only.
inline std::optional<UpdateContent> only_content(const RuleCase& rule) {
  if (rule.of_json) return UpdateContent::kState;
  if (rule.settings.at("method") == "FedBuff") return UpdateContent::kDelta;
  return std::nullopt;
}

inline std::vector<RuleCase> every_rule() {
  const std::vector<RuleCase> rules = {
      {.settings = {{"method", "FedAvg"}}},
      {.settings = {{"method", "UniformMean"}}, .weighs_by_examples = false},
      {.settings = {{"method", "FedProx"}, {"mu", 0.1}}},
      {.settings = {{"method", "FedNova"}}},
      {.settings = {{"method", "FedNova"}, {"tau_eff", "steps"}}},
      {.settings = {{"method", "q-FedAvg"}, {"q", 1.5}}, .weighs_by_examples = false},
      {.settings = {{"method", "FedAvgM"}, {"server_lr", 0.7}}},
      {.settings = {{"method", "FedAvgM"}, {"nesterov", true}}},
      {.settings = {{"method", "FedAdagrad"}}, .widest_exponent = 60},
      {.settings = {{"method", "FedAdam"}}, .widest_exponent = 60},
      {.settings = {{"method", "FedYogi"}}, .widest_exponent = 60},
      {.settings = {{"method", "SCAFFOLD"}}, .weighs_by_examples = false},
      {.settings = {{"method", "FedDyn"}, {"alpha", 0.1}}, .weighs_by_examples = false},
      {.settings = {{"method", "Median"}}, .weighs_by_examples = false},
      {.settings = {{"method", "TrimmedMean"}, {"beta", 0.2}}, .weighs_by_examples = false},
      {.settings = {{"method", "Krum"}, {"f", 2}}, .weighs_by_examples = false},
      {.settings = {{"method", "MultiKrum"}, {"f", 2}, {"m", 4}}, .weighs_by_examples = false},
      {.settings = {{"method", "Bulyan"}, {"f", 2}}, .weighs_by_examples = false},
      {.settings = {{"method", "GeometricMedian"}, {"max_iterations", 5}}},
      {.settings = {{"method", "NormClipping"}, {"max_norm", 1.0}}},
      {.settings = {{"method", "NormFiltering"}, {"max_norm", 1e30}}},
      {.settings = {{"method", "FedBuff"}, {"buffer_size", 11}}, .weighs_by_examples = false},
      {.settings = {{"method", "JsonMean"}}, .of_json = true}};
  std::vector<RuleCase> cases;
  for (const RuleCase& rule : rules) {
    for (const UpdateContent content : {UpdateContent::kState, UpdateContent::kDelta}) {
      if (only_content(rule).value_or(content) != content) continue;
      cases.push_back(rule);
      cases.back().content = content;
    }
  }
  return cases;
}

// Eleven devices: as many as Bulyan with f = 2 wants.
class RuleTest : public ::testing::TestWithParam<RuleCase> {
 protected:
  static constexpr int kDevices = 11;

  AggregationSettings settings() const { return settings_of(GetParam().settings); }

  AggregationBase base() const {
    return {.global = &global_,
            .content = GetParam().content,
            .rule_state = nullptr,
            .population = 20,
            .local_lr = 0.1,
            .local_momentum = 0.5,
            .local_mu = 0.01};
  }

  // In order of their names.
  std::vector<Device> devices(const LayoutPtr& layout, std::uint64_t seed, int low,
                              int high) const {
    Random random(seed);
    std::vector<Device> all;
    for (int i = 0; i < kDevices; ++i) {
      all.push_back({.name = "device-" + std::to_string(10 + i),
                     .state = some_state(layout, random, low, high),
                     .examples = static_cast<std::int64_t>(1 + random.below(1000)),
                     .steps = static_cast<std::int64_t>(1 + random.below(30)),
                     .loss = 0.1 + random.uniform(),
                     .staleness = static_cast<std::int64_t>(random.below(5))});
    }
    return all;
  }

  Outcome outcome_of(const std::vector<Device>& all, Workers* workers = nullptr) const {
    auto outcome = aggregate(settings(), base(), all, workers);
    if (!outcome) throw std::runtime_error(outcome.error().message);
    return *std::move(outcome);
  }

  // 42 elements: four tensors, or 14 numbers.
  static LayoutPtr small_layout() {
    if (GetParam().of_json) return *StateLayout::create({{"numbers", {14, 3}}});
    return *StateLayout::create({{"w", {5, 7}}, {"b", {6}}, {"none", {0}}, {"one", {}}});
  }
  // Of several blocks.
  static LayoutPtr large_layout() {
    if (GetParam().of_json) return *StateLayout::create({{"numbers", {1009, 3}}});
    return *StateLayout::create({{"w", {400, 501}}, {"b", {17}}});
  }
  // Tensors of at least 35 and of at least 6 elements.
  static std::string large_tensor() { return GetParam().of_json ? "numbers" : "w"; }
  static std::string small_tensor() { return GetParam().of_json ? "numbers" : "b"; }

  static StateDict some_state(const LayoutPtr& layout, Random& random, int low, int high) {
    if (GetParam().of_json) return random_json_state(layout, random, low, high);
    return random_state(layout, random, low, high);
  }
  static StateDict global_of(const LayoutPtr& layout) {
    Random random(77);
    return some_state(layout, random, -3, 3);
  }

  const LayoutPtr layout_ = small_layout();
  StateDict global_ = global_of(layout_);
};

}  // namespace muster::aggregating
