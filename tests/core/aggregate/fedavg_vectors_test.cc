#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/aggregate/aggregator.h"
#include "tests/support/vectors.h"

// tests/vectors/fedavg_mean.json: weighted means in exact rational arithmetic.
namespace muster {
namespace {

// All clients into one aggregate of the first one's layout; the first error ends it.
Result<StateDict> mean_of(const Json& clients) {
  LayoutPtr layout = *StateLayout::create({});
  if (!clients.empty()) layout = vectors::state(clients.front().at("state")).layout_ptr();
  const StateDict global(layout);
  MUSTER_TRY(const auto mean, make_aggregator(FedAvg{}, {.global = &global}));
  for (const Json& client : clients) {
    MUSTER_TRY_STATUS(
        mean->accumulate({.contributor = "client" + std::to_string(mean->num_contributors()),
                          .values = values_of(vectors::state(client.at("state"))),
                          .examples = client.at("num_examples").get<std::int64_t>()}));
  }
  MUSTER_TRY(Outcome outcome, mean->finish());
  return std::move(outcome.global);
}

// For elements of mixed signs: the largest |value| among the clients at each element.
std::vector<double> largest_inputs(const Json& clients, const std::string& tensor) {
  std::vector<double> largest;
  for (const Json& client : clients) {
    const auto values = vectors::doubles(client.at("state").at(tensor));
    largest.resize(values.size(), 0.0);
    for (std::size_t i = 0; i < values.size(); ++i) {
      largest[i] = std::max(largest[i], std::abs(values[i]));
    }
  }
  return largest;
}

void expect_mean(const Json& file, const Json& test) {
  const auto mean = mean_of(test.at("clients"));
  ASSERT_TRUE(mean.has_value()) << mean.error().message;
  for (const auto& [name, tensor] : test.at("expected").items()) {
    SCOPED_TRACE(name);
    const auto want = vectors::doubles(tensor);
    const auto got = mean->tensor(name);
    ASSERT_EQ(got.size(), want.size());
    if (test.at("tolerance").contains("rtol_of_largest_input")) {
      const double rtol = test.at("tolerance").at("rtol_of_largest_input").get<double>();
      const auto largest = largest_inputs(test.at("clients"), name);
      for (std::size_t i = 0; i < want.size(); ++i) {
        EXPECT_LE(std::abs(static_cast<double>(got[i]) - want[i]), rtol * largest[i]) << i;
      }
    } else {
      vectors::expect_close(got, want, vectors::tolerance(file, test));
    }
    // Stricter than the file asks: the nearest float32 of the exact mean, also where the signs are
    // mixed.
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(got[i], static_cast<float>(want[i])) << i;
    }
  }
}

TEST(FedAvgVectors, EveryCaseGivesItsMeanOrItsError) {
  const std::map<std::string, std::string> reasons = {
      {"no_clients", "no_contributors"},    {"all_weights_zero", "no_contributors"},
      {"negative_weight", "bad_examples"},  {"shape_mismatch", "shape_mismatch"},
      {"missing_tensor", "missing_tensor"}, {"extra_tensor", "extra_tensor"}};
  const Json file = vectors::load("fedavg_mean.json");
  std::size_t errors = 0;
  for (const Json& test : file.at("cases")) {
    const auto name = test.at("name").get<std::string>();
    SCOPED_TRACE(name);
    if (!test.contains("expected_error")) {
      expect_mean(file, test);
      continue;
    }
    ++errors;
    const auto mean = mean_of(test.at("clients"));
    ASSERT_FALSE(mean.has_value());
    EXPECT_EQ(mean.error().reason, reasons.at(name));
  }
  EXPECT_EQ(errors, reasons.size());
  EXPECT_EQ(file.at("cases").size(), 18U);
}

}  // namespace
}  // namespace muster
