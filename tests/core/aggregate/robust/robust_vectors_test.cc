#include <gtest/gtest.h>

#include <map>

#include "core/aggregate/distance.h"
#include "core/aggregate/robust/geometric_median.h"
#include "core/aggregate/robust/krum.h"
#include "tests/core/aggregate/devices.h"
#include "tests/support/vectors.h"

// tests/vectors/robust_*.json. Clients are named so that the order of names is that of the vectors.
namespace muster {
namespace {

using aggregating::Device;

std::string client_name(std::size_t index) {
  const std::string digits = std::to_string(index);
  return "c" + std::string(3 - digits.size(), '0') + digits;
}

LayoutPtr layout_of(std::size_t elements) {
  return *StateLayout::create({{"w", {static_cast<std::int64_t>(elements)}}});
}

std::vector<Device> clients_of(const Json& test) {
  std::vector<Device> clients;
  for (const Json& vector : test.at("vectors")) {
    const std::vector<float> values = vectors::floats(vector);
    StateDict state(layout_of(values.size()));
    std::ranges::copy(values, state.values().begin());
    Device client{.name = client_name(clients.size()), .state = std::move(state)};
    if (test.contains("weights")) {
      client.examples = static_cast<std::int64_t>(test.at("weights")[clients.size()].get<double>());
    }
    clients.push_back(std::move(client));
  }
  return clients;
}

// The outcome of states, which must be that of the same deltas to a zero state.
Result<Outcome> outcome_of(const Json& settings, const Json& test) {
  MUSTER_TRY(const AggregationSettings rule, aggregation_from_json(settings, "aggregation"));
  const std::vector<Device> clients = clients_of(test);
  const StateDict zero(clients.empty() ? layout_of(6) : clients.front().state.layout_ptr());
  MUSTER_TRY(Outcome outcome, aggregating::aggregate(rule, {.global = &zero}, clients));
  MUSTER_TRY(
      const Outcome of_deltas,
      aggregating::aggregate(rule, {.global = &zero, .content = UpdateContent::kDelta}, clients));
  EXPECT_EQ(std::vector<float>(outcome.global.values().begin(), outcome.global.values().end()),
            std::vector<float>(of_deltas.global.values().begin(), of_deltas.global.values().end()));
  EXPECT_EQ(outcome.report, of_deltas.report);
  return outcome;
}

Json names_of(const Json& indices) {
  Json names = Json::array();
  for (const Json& index : indices) names.push_back(client_name(index.get<std::size_t>()));
  return names;
}

void expect_error(const Json& settings, const Json& test) {
  const auto outcome = outcome_of(settings, test);
  ASSERT_FALSE(outcome.has_value());
  const std::map<std::string, std::vector<std::string>> reasons = {
      {"no vectors", {"no_contributors"}},
      {"no clients", {"no_contributors"}},
      {"weights sum to zero", {"no_contributors"}},
      {"negative weight", {"bad_examples"}},
      {"vectors of unequal length", {"shape_mismatch"}},
      {"n < 2f + 3", {"insufficient_for_rule", "no_contributors"}},
      {"n < 4f + 3", {"insufficient_for_rule", "no_contributors"}},
      {"m > n", {"insufficient_for_rule"}},
      {"m < 1", {"bad_field"}},
      {"f < 0", {"bad_field"}},
      {"2k >= n", {"bad_field"}},
      {"beta below zero", {"bad_field"}}};
  const auto& wanted = reasons.at(test.at("expected_error").get<std::string>());
  EXPECT_TRUE(std::ranges::count(wanted, outcome.error().reason) == 1)
      << outcome.error().reason << ": " << outcome.error().message;
}

void expect_values(const Json& settings, const Json& file, const Json& test, const Json& want) {
  const auto outcome = outcome_of(settings, test);
  ASSERT_TRUE(outcome.has_value()) << outcome.error().message;
  vectors::expect_close(outcome->global.values(), vectors::doubles(want),
                        vectors::tolerance(file, test));
}

TEST(RobustVectors, Median) {
  const Json file = vectors::load("robust_median.json");
  for (const Json& test : file.at("cases")) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    const Json settings = {{"method", "Median"}};
    if (test.contains("expected_error")) {
      expect_error(settings, test);
    } else {
      expect_values(settings, file, test, test.at("expected"));
    }
  }
  EXPECT_EQ(file.at("cases").size(), 12U);
}

TEST(RobustVectors, TrimmedMean) {
  const Json file = vectors::load("robust_trimmed_mean.json");
  for (const Json& test : file.at("cases")) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    const Json settings = {{"method", "TrimmedMean"}, {"beta", test.at("beta")}};
    if (test.contains("expected_error")) {
      expect_error(settings, test);
    } else {
      expect_values(settings, file, test, test.at("expected"));
    }
  }
  EXPECT_EQ(file.at("cases").size(), 12U);
}

void expect_scores(const Json& file, const Json& test) {
  const std::vector<Device> clients = clients_of(test);
  std::vector<Contribution> contributions;
  for (const Device& client : clients) contributions.push_back(aggregating::contribution(client));
  Workers workers;
  const std::vector<double> scores =
      krum_scores(squared_distances(contributions, &workers),
                  static_cast<std::int64_t>(clients.size()), test.at("f"), workers);
  const std::vector<double> want = vectors::doubles(test.at("expected").at("scores"));
  const double rtol = file.at("tolerance").at("rtol").get<double>();
  ASSERT_EQ(scores.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(scores[i], want[i], rtol * want[i]) << i;
  }
}

TEST(RobustVectors, KrumAndMultiKrum) {
  const Json file = vectors::load("robust_krum.json");
  for (const Json& test : file.at("cases")) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    const Json krum = {{"method", "Krum"}, {"f", test.at("f")}};
    if (test.contains("expected_error")) {
      const bool multi = test.contains("m");
      expect_error(
          multi ? Json{{"method", "MultiKrum"}, {"f", test.at("f")}, {"m", test.at("m")}} : krum,
          test);
      continue;
    }
    const Json& expected = test.at("expected");
    expect_scores(file, test);
    const auto outcome = outcome_of(krum, test);
    ASSERT_TRUE(outcome.has_value()) << outcome.error().message;
    EXPECT_EQ(outcome->report.at("selected"), names_of({expected.at("krum_index")}));
    vectors::expect_close(outcome->global.values(), vectors::doubles(expected.at("krum")),
                          vectors::tolerance(file, test));
    for (const Json& multi : expected.at("multi_krum")) {
      const Json settings = {{"method", "MultiKrum"}, {"f", test.at("f")}, {"m", multi.at("m")}};
      const auto mean = outcome_of(settings, test);
      ASSERT_TRUE(mean.has_value()) << mean.error().message;
      EXPECT_EQ(mean->report.at("selected"), names_of(multi.at("selected")));
      vectors::expect_close(mean->global.values(), vectors::doubles(multi.at("result")),
                            vectors::tolerance(file, test));
    }
  }
  EXPECT_EQ(file.at("cases").size(), 17U);
}

TEST(RobustVectors, Bulyan) {
  const Json file = vectors::load("robust_bulyan.json");
  for (const Json& test : file.at("cases")) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    const Json settings = {{"method", "Bulyan"}, {"f", test.at("f")}};
    if (test.contains("expected_error")) {
      expect_error(settings, test);
      continue;
    }
    const Json& expected = test.at("expected");
    expect_values(settings, file, test, expected.at("result"));
    EXPECT_EQ(outcome_of(settings, test)->report.at("selected"),
              names_of(expected.at("selection_order")));
  }
  EXPECT_EQ(file.at("cases").size(), 13U);
}

// The iterate after exactly so many iterations.
std::vector<float> weiszfeld(const Json& test, std::int64_t iterations) {
  const std::vector<Device> clients = clients_of(test);
  std::vector<Contribution> contributions;
  std::vector<double> weights;
  for (const Device& client : clients) {
    if (client.examples == 0) continue;
    contributions.push_back(aggregating::contribution(client));
    weights.push_back(static_cast<double>(client.examples));
  }
  std::vector<float> out(clients.front().state.values().size());
  Workers workers;
  const auto result = geometric_median(
      rows_of(contributions), weights,
      {.nu = test.at("nu").get<double>(), .max_iterations = iterations, .tolerance = 0}, nullptr,
      out, workers);
  EXPECT_TRUE(result.finite);
  return out;
}

TEST(RobustVectors, GeometricMedian) {
  const Json file = vectors::load("robust_geometric_median.json");
  for (const Json& test : file.at("cases")) {
    const auto name = test.at("name").get<std::string>();
    SCOPED_TRACE(name);
    Json settings = {{"method", "GeometricMedian"}, {"nu", test.at("nu")}, {"tolerance", 0}};
    if (test.contains("expected_error")) {
      expect_error(settings, test);
      continue;
    }
    for (const Json& after : test.at("expected").at("after_iterations")) {
      const auto iterations = after.at("iterations").get<std::int64_t>();
      SCOPED_TRACE(iterations);
      // It starts at the weighted mean; from elsewhere the iteration comes to the same end.
      if (test.contains("start") && iterations < 100) continue;
      vectors::Tolerance tolerance = vectors::tolerance(file, test);
      // As its note says.
      if (name == "byzantine_1e25") tolerance = {iterations <= 10 ? 1e-3 : 0, 1e-3};
      const std::vector<double> want = vectors::doubles(after.at("v"));
      const std::vector<float> got = weiszfeld(test, iterations);
      vectors::expect_close(got, want, tolerance);
      if (iterations == 0) continue;
      settings["max_iterations"] = iterations;
      const auto outcome = outcome_of(settings, test);
      ASSERT_TRUE(outcome.has_value()) << outcome.error().message;
      EXPECT_EQ(
          std::vector<float>(outcome->global.values().begin(), outcome->global.values().end()),
          got);
    }
  }
  EXPECT_EQ(file.at("cases").size(), 13U);
}

}  // namespace
}  // namespace muster
