#include "core/strategy/description/population_based.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::HasSubstr;

Json smallest() {
  return Json::parse(R"({"population_size": 4, "generations": 3, "steps": 10,
                         "search_space": {"optimizer.lr": {"type": "uniform", "low": 0.1,
                                                           "high": 1}}})");
}

Result<PopulationBased> read(const Json& json) {
  JsonObject object(json, "strategy");
  return population_based_from_json(object);
}

std::string refusal(const char* field, const Json& value) {
  Json json = smallest();
  json[field] = value;
  const auto strategy = read(json);
  EXPECT_FALSE(strategy) << field << value;
  return strategy ? "" : strategy.error().message;
}

TEST(PopulationBasedDescription, DefaultsAreTruncationPerturbationAndOneWorker) {
  const auto strategy = read(smallest());
  ASSERT_TRUE(strategy) << strategy.error().message;
  EXPECT_EQ(strategy->exploit.method, ExploitSettings::Method::kTruncation);
  EXPECT_EQ(strategy->explore.method, ExploreSettings::Method::kPerturbation);
  EXPECT_EQ(strategy->min_workers, 1);
}

TEST(PopulationBasedDescription, WrongFieldsAreRefusedByName) {
  EXPECT_THAT(refusal("population_size", 0), HasSubstr("strategy.population_size"));
  EXPECT_THAT(refusal("generations", 0), HasSubstr("strategy.generations"));
  EXPECT_THAT(refusal("steps", 0), HasSubstr("strategy.steps"));
  EXPECT_THAT(refusal("min_workers", 0), HasSubstr("strategy.min_workers"));
  EXPECT_THAT(refusal("search_space", Json::object()), HasSubstr("strategy.search_space"));
  EXPECT_THAT(refusal("exploit", {{"method", "Copy"}}), HasSubstr("Truncation"));
  EXPECT_THAT(refusal("explore", {{"method", "Shake"}}), HasSubstr("Perturbation"));
  EXPECT_THAT(refusal("num_clients", 3), HasSubstr("num_clients"));
}

}  // namespace
}  // namespace muster
