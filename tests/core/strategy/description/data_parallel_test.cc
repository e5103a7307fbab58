#include "core/strategy/description/data_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Result<DataParallel> read(const Json& json) {
  JsonObject object(json, "strategy");
  return data_parallel_from_json(object);
}

std::string refusal(const char* text) {
  const auto strategy = read(Json::parse(text));
  EXPECT_FALSE(strategy) << text;
  return strategy ? "" : strategy.error().message;
}

TEST(DataParallelDescription, DefaultsAreAllReduceWithEqualSharesAndNoneToLose) {
  const auto strategy = read({{"num_replicas", 4}});
  ASSERT_TRUE(strategy) << strategy.error().message;
  EXPECT_EQ(strategy->num_replicas, 4);
  EXPECT_EQ(strategy->min_replicas, 4);
  EXPECT_TRUE(strategy->shares.empty());
  EXPECT_TRUE(std::holds_alternative<AllReduce>(strategy->aggregation));
  const auto server = read({{"num_replicas", 4}, {"aggregation", {{"method", "ParameterServer"}}}});
  ASSERT_TRUE(server) << server.error().message;
  EXPECT_EQ(std::get<ParameterServer>(server->aggregation).max_staleness, 0);
}

TEST(DataParallelDescription, UnknownMethodsAndTopologiesAreRefusedListingTheKnown) {
  EXPECT_THAT(refusal(R"({"num_replicas": 2, "aggregation": {"method": "Ring"}})"),
              AllOf(HasSubstr("strategy.aggregation.method"), HasSubstr("AllReduce"),
                    HasSubstr("ParameterServer"), HasSubstr("Decentralized")));
  EXPECT_THAT(
      refusal(R"({"num_replicas": 2, "aggregation": {"method": "Decentralized",
                  "topology": "circle"}})"),
      AllOf(HasSubstr("aggregation.topology"), HasSubstr("circle"), HasSubstr("exponential")));
  EXPECT_THAT(refusal(R"({"num_replicas": 2, "aggregation": {"method": "Decentralized"}})"),
              HasSubstr("topology"));
}

TEST(DataParallelDescription, FieldsOfAnotherMethodAreRefused) {
  EXPECT_THAT(refusal(R"({"num_replicas": 2, "aggregation": {"method": "AllReduce",
                          "max_staleness": 1}})"),
              HasSubstr("max_staleness"));
  EXPECT_THAT(refusal(R"({"num_replicas": 2, "aggregation": {"method": "ParameterServer",
                          "topology": "ring"}})"),
              HasSubstr("topology"));
  EXPECT_THAT(refusal(R"({"num_replicas": 2, "rounds": 3})"), HasSubstr("rounds"));
}

TEST(DataParallelDescription, NumbersOutOfRangeAreRefused) {
  EXPECT_THAT(refusal(R"({})"), HasSubstr("num_replicas"));
  EXPECT_THAT(refusal(R"({"num_replicas": 0})"), HasSubstr("num_replicas"));
  EXPECT_THAT(refusal(R"({"num_replicas": 10001})"), HasSubstr("num_replicas"));
  EXPECT_THAT(refusal(R"({"num_replicas": 2, "min_replicas": 3})"), HasSubstr("min_replicas"));
  EXPECT_THAT(refusal(R"({"num_replicas": 2, "min_replicas": 0})"), HasSubstr("min_replicas"));
  EXPECT_THAT(refusal(R"({"num_replicas": 2, "aggregation": {"method": "ParameterServer",
                          "max_staleness": -1}})"),
              HasSubstr("max_staleness"));
  for (const char* shares : {"[1]", "[1, 2, 3]", "[1, 0]", "[1, 1.5]", "[1, 1000001]", "7", "{}",
                             "[1, \"1\"]", "[1, 18446744073709551615]"}) {
    EXPECT_THAT(refusal((std::string(R"({"num_replicas": 2, "shares": )") + shares + "}").c_str()),
                HasSubstr("strategy.shares"));
  }
}

}  // namespace
}  // namespace muster
